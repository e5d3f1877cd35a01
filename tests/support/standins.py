"""Programs that stand in for agents which no registry has: they take the documented command line and nothing else.

Each works as its agent would: it runs a command, writes a file, keeps the conversation in its home, and says what it
knows of it. It also tries the command of outside.json, and writes down what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_HEAD: Final = """\
#!/usr/bin/python3 -I
import json, os, pathlib, subprocess, sys

def die(words):
    sys.exit(f"{NAME}: {words}")

def parse(words, switches, values):
    found, rest = {}, []
    while words:
        word = words.pop(0)
        if word == "--":
            return found, rest + words
        name, equals, value = word.partition("=")
        if word in switches:
            found[word] = True
        elif name in values and (equals or words):
            found[name] = value if equals else words.pop(0)
        elif word.startswith("-"):
            die(UNKNOWN.format(word))
        else:
            rest.append(word)
    return found, rest

def work(state, prompt, again):
    state.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(state.read_text()) if again and state.exists() else []
    state.write_text(json.dumps([*known, prompt]))
    subprocess.run(["sh", "-c", "echo kept > proof.txt"], check=True)
    pathlib.Path("made.txt").write_text("by its own tool\\n")
    left = subprocess.run(json.loads(pathlib.Path("outside.json").read_text()), capture_output=True)
    pathlib.Path("outside.txt").write_bytes(left.stdout + left.stderr)
    print("told before:", ", ".join(known) or "nothing")
    print("done:", prompt)

if sys.argv[1:] == ["--version"]:
    print(f"{NAME} 1.2.3")
    sys.exit()
"""
# https://kiro.dev/docs/cli/headless/ and https://kiro.dev/docs/cli/reference/cli-commands/
_KIRO: Final = """
if sys.argv[1:2] != ["chat"]:
    die("the command is chat")
if sys.argv[2:] == ["--help"]:
    print(" ".join(sorted({*SWITCHES, *VALUES})))
    sys.exit()
flags, rest = parse(sys.argv[2:], SWITCHES, VALUES)
if "--no-interactive" not in flags or "--trust-all-tools" not in flags or len(rest) != 1:
    die("nobody is here to ask")
work(pathlib.Path.home() / ".kiro" / "conversation.json", rest[0], "--resume" in flags)
"""
# https://docs.docker.com/ai/docker-agent/features/cli/
_CAGENT: Final = """
if sys.argv[1:2] != ["run"]:
    die("the command is run")
if sys.argv[2:] == ["--help"]:
    print(" ".join(sorted({*SWITCHES, *VALUES})))
    sys.exit()
flags, rest = parse(sys.argv[2:], SWITCHES, VALUES)
if "--exec" not in flags or "--yolo" not in flags or len(rest) != 2 or rest[0] != "default":
    die("[config] [message]")
if not os.environ.get("ANTHROPIC_API_KEY"):
    die("no key of a provider")
work(pathlib.Path.home() / ".cagent" / "session.json", rest[1], flags.get("--session") == "-1")
"""
_PROGRAMS: Final = {
    "kiro-cli": (
        _KIRO,
        "error: unexpected argument '{}' found",
        {"--no-interactive", "--trust-all-tools", "--resume"},
        {"--model", "--agent", "--trust-tools", "--resume-id"},
    ),
    "docker-agent": (
        _CAGENT,
        "unknown flag: {}",
        {"--exec", "--yolo", "--json"},
        {"--model", "--session", "--agent", "--attach", "--prompt-file", "--session-db", "--working-dir"},
    ),
}


def write(directory: Path) -> None:
    """Into a directory for a PATH."""
    for name, (body, unknown, switches, values) in _PROGRAMS.items():
        named = f"NAME = {name!r}\nUNKNOWN = {unknown!r}\nSWITCHES, VALUES = {switches!r}, {values!r}\n"
        program = directory / name
        shebang, rest = _HEAD.split("\n", 1)
        program.write_text(f"{shebang}\n{named}{rest}{body}")
        program.chmod(0o755)
