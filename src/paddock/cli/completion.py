"""Completion scripts. They call `paddock ls -q` for box names, and nothing of a box is ever evaluated by the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.cli.parser import VERBS

if TYPE_CHECKING:
    import argparse

_BASH = """_paddock() {{
    local word=${{COMP_WORDS[COMP_CWORD]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$(paddock ls -q 2>/dev/null)" -- "$word") $(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _paddock paddock
"""
_ZSH = """#compdef paddock
_paddock() {{
    if (( CURRENT == 2 )); then compadd {verbs}
    else compadd -- ${{(f)"$(paddock ls -q 2>/dev/null)"}}; _files
    fi
}}
compdef _paddock paddock
"""
_FISH = """complete -c paddock -n __fish_use_subcommand -f -a "{verbs}"
complete -c paddock -n 'not __fish_use_subcommand' -a '(paddock ls -q 2>/dev/null)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(options: argparse.Namespace) -> int:
    print(_SCRIPTS[options.shell].format(verbs=" ".join(VERBS)), end="")
    return 0
