"""Completion scripts. They ask `paddock ls -q` for names, which are letters a shell has no use for."""

from __future__ import annotations

from paddock.cli.nouns import NOUNS
from paddock.cli.pages import VERBS
from paddock.cli.parser import build

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_NAMING = ("secret", "template")  # nouns with names of their own
_TAKING_BOXES = "run exec inspect env stop rm logs cp diff apply discard git usage ports save"
_BASH = r"""_paddock() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "@VERBS@" -- "$word")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do  # what follows belongs to a command
        [[ ${COMP_WORDS[i]} != -- ]] || return 0
    done
    if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --secret && $verb =~ ^(run|create)$ ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(paddock secret ls -q 2>/dev/null)" -- "$word")
        return
    fi
    if [[ ${COMP_WORDS[COMP_CWORD - 1]} =~ ^(-t|--template)$ && $verb =~ ^(run|create)$ ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(paddock template ls -q 2>/dev/null)" -- "$word")
        __ltrim_colon_completions "$word" 2>/dev/null
        return
    fi
    if [[ $word == -* ]]; then
        case $verb in
@OPTIONS@
        esac
        return
    fi
    case $verb in
        daemon) mapfile -t COMPREPLY < <(compgen -W "start stop status" -- "$word") ;;
        completion) mapfile -t COMPREPLY < <(compgen -W "bash zsh fish" -- "$word") ;;
        @NOUNS@)
            local words=
            if ((COMP_CWORD == 2)); then
                case $verb in
@NOUN_VERBS@
                esac
            else
                case $verb in
                    secret | template) words=$(paddock "$verb" ls -q 2>/dev/null) ;;
                    *) words=$(paddock ls -q 2>/dev/null) ;;
                esac
            fi
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
            ;;
        @BOXES@) mapfile -t COMPREPLY < <(compgen -W "$(paddock ls -q 2>/dev/null)" -- "$word") ;;
    esac
}
complete -o bashdefault -o default -F _paddock paddock
"""
_ZSH = """#compdef paddock
_paddock() {
    if (( CURRENT == 2 )); then
        compadd -- @VERBS@
        return
    fi
    if [[ $words[CURRENT-1] == --secret && $words[2] == (run|create) ]]; then
        compadd -- ${(f)"$(paddock secret ls -q 2>/dev/null)"}
        return
    fi
    if [[ $words[CURRENT-1] == (-t|--template) && $words[2] == (run|create) ]]; then
        compadd -- ${(f)"$(paddock template ls -q 2>/dev/null)"}; _files
        return
    fi
    case $words[2] in
        daemon) compadd -- start stop status ;;
        completion) compadd -- bash zsh fish ;;
@ZSH_NOUNS@
        @BOXES@) compadd -- ${(f)"$(paddock ls -q 2>/dev/null)"}; _files ;;
        *) _files ;;
    esac
}
compdef _paddock paddock
"""
_FISH = """complete -c paddock -n __fish_use_subcommand -f -a '@VERBS@'
complete -c paddock -n '__fish_seen_subcommand_from daemon' -f -a 'start stop status'
complete -c paddock -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'
@FISH_NOUNS@
complete -c paddock -n '__fish_seen_subcommand_from @TAKING@' -a '(paddock ls -q 2>/dev/null)'
complete -c paddock -n '__fish_seen_subcommand_from run create' -l secret -x -a '(paddock secret ls -q 2>/dev/null)'
complete -c paddock -n '__fish_seen_subcommand_from run create' -s t -l template -r -a '@TEMPLATES@'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(options: argparse.Namespace) -> int:
    script = _SCRIPTS[options.shell]
    for mark, value in (
        ("@VERBS@", " ".join(VERBS)),
        ("@TEMPLATES@", f"({_named('template')})"),
        ("@TAKING@", _TAKING_BOXES),
        ("@BOXES@", _TAKING_BOXES.replace(" ", " | ")),
        ("@OPTIONS@", _option_cases()),
        ("@NOUNS@", " | ".join(NOUNS)),
        ("@NOUN_VERBS@", "\n".join(f'                    {noun}) words="{_verbs(noun)}" ;;' for noun in NOUNS)),
        ("@ZSH_NOUNS@", "\n".join(_zsh(noun) for noun in NOUNS)),
        ("@FISH_NOUNS@", "\n".join(_fish(noun) for noun in NOUNS)),
    ):
        script = script.replace(mark, value)
    print(script, end="")
    return 0


def _verbs(noun: str) -> str:
    return " ".join(NOUNS[noun])


def _named(noun: str) -> str:
    """What lists the things that a noun's verbs take."""
    return f"paddock {f'{noun} ls' if noun in _NAMING else 'ls'} -q 2>/dev/null"


def _zsh(noun: str) -> str:
    boxes = f'${{(f)"$({_named(noun)})"}}'
    return f"        {noun}) if (( CURRENT == 3 )); then compadd -- {_verbs(noun)}; else compadd -- {boxes}; fi ;;"


def _fish(noun: str) -> str:
    words = f"{_verbs(noun)} ({_named(noun)})"
    return f"complete -c paddock -n '__fish_seen_subcommand_from {noun}' -f -a '{words}'"


def _option_cases() -> str:
    return "\n".join(
        f'            {verb}) mapfile -t COMPREPLY < <(compgen -W "{" ".join(_options(verb))}" -- "$word") ;;'
        for verb in VERBS
    )


def _options(verb: str) -> list[str]:
    """Of a noun, those of all its verbs."""
    pages = [f"{verb} {second}" for second in NOUNS[verb]] if verb in NOUNS else [verb]
    return sorted({option for page in pages for option in build(page).options()})
