"""Live mode's files that the host trusts without asking, and files a box had better not see.

An editor, a shell hook or an agent on the host obeys the files of TRUSTED as soon as it stands in the project. Where
one exists it becomes a read-only mount; a new one cannot be prevented on a bind mount, and is named when the box ends.
Both tables are data: to protect one more file, add a row.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import stat
from dataclasses import dataclass

from paddock import fs, limits
from paddock.errors import UserError
from paddock.model import Mount
from paddock.text import neutralise
from paddock.workspace import nested, repository
from paddock.workspace.tree import Memory, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.workspace.tree import Place

# Names at the top of a project (found at every depth when the box ends), in lower case, and who obeys them.
TRUSTED: tuple[tuple[str, str], ...] = (
    (".vscode", "VS Code runs its tasks and settings"),
    ("*.code-workspace", "VS Code runs its tasks and settings"),
    (".idea", "JetBrains editors run its configurations"),
    (".run", "JetBrains editors run its configurations"),
    (".fleet", "JetBrains Fleet runs its configurations"),
    (".zed", "Zed runs its tasks and settings"),
    (".vs", "Visual Studio runs its tasks"),
    (".exrc", "vim obeys it"),
    (".vimrc", "vim obeys it"),
    (".nvim.lua", "neovim runs it"),
    (".nvimrc", "neovim obeys it"),
    (".lvimrc", "vim obeys it"),
    (".dir-locals.el", "Emacs obeys it"),
    (".devcontainer", "editors build and run it"),
    (".devcontainer.json", "editors build and run it"),
    (".envrc", "direnv runs it"),
    (".envrc.local", "direnv runs it"),
    (".autoenv.zsh", "autoenv runs it"),
    ("mise.toml", "mise runs its hooks"),
    (".mise.toml", "mise runs its hooks"),
    (".mise", "mise runs its hooks"),
    (".husky", "git runs it at a commit"),
    (".githooks", "git runs it at a commit"),
    (".pre-commit-config.yaml", "pre-commit runs what it names at a commit"),
    ("lefthook.yml", "lefthook runs what it names at a commit"),
    (".lefthook.yml", "lefthook runs what it names at a commit"),
    (".overcommit.yml", "overcommit runs what it names at a commit"),
    (".mcp.json", "agents start the programs it names"),
    (".claude", "Claude Code runs its hooks and obeys its settings"),
    (".codex", "Codex obeys its settings"),
    (".gemini", "Gemini CLI obeys its settings"),
    (".cursor", "Cursor starts the programs it names"),
    (".cursorrules", "Cursor obeys it"),
    (".windsurf", "Windsurf obeys it"),
    (".windsurfrules", "Windsurf obeys it"),
    (".kiro", "Kiro runs its hooks"),
    (".opencode", "opencode runs its plugins"),
    ("opencode.json", "opencode starts the programs it names"),
    ("opencode.jsonc", "opencode starts the programs it names"),
    (".aider.conf.yml", "aider runs the commands it names"),
    (".continue", "Continue starts the programs it names"),
    (".roo", "Roo Code starts the programs it names"),
    (".cline", "Cline obeys it"),
    (".clinerules", "Cline obeys it"),
    (".amp", "Amp obeys it"),
    (".goosehints", "goose obeys it"),
)

# Files that tend to hold passwords or keys, and names like them that do not.
SECRET: tuple[str, ...] = (
    ".env", ".env.*", "*.env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass", ".my.cnf",
    ".vault_pass*", ".vault-token", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials", "credentials.json", "client_secret*.json",
    "service-account*.json", "service_account*.json", "secrets.json", "secrets.y*ml", "secrets.toml", "kubeconfig",
    "*.tfstate", "*.tfvars", "wp-config.php", "local.settings.json", ".dockerconfigjson",
)  # fmt: skip
HARMLESS: tuple[str, ...] = ("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub", "*.schema")
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "target", "__pycache__"})  # many files, none the user's


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    path: str  # relative to the workspace
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    closed: tuple[Trusted, ...]
    links: tuple[Trusted, ...]  # symbolic links: what they lead to may be outside, and cannot be closed here


class Survey:
    """Every trusted place of a workspace and when something in it last changed, and what looks secret there.

    Give `look` to nested.find(), with a memory that marks what marked() does.
    """

    def __init__(self) -> None:
        self.changed_ns: dict[str, int] = {}
        self.secrets: list[str] = []

    def __repr__(self) -> str:
        return f"<Survey of {len(self.changed_ns)} places>"

    def look(self, place: Place) -> None:
        inside = _trusted_part(place.path)
        bears_secrets = _SKIPPED.isdisjoint(place.path.split("/"))
        for name in place.listing.marked:
            path = f"{place.path}/{name}" if place.path else name
            top = inside or (path if why(name) else "")
            is_secret = bears_secrets and looks_secret(name)
            if not top and not is_secret:
                continue
            try:
                status = os.stat(name, dir_fd=place.fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if top:
                self.changed_ns[top] = max(status.st_ctime_ns, self.changed_ns.get(top, 0))
            if is_secret and stat.S_ISREG(status.st_mode):
                self.secrets.append(path)


def marked(place: str, names: list[str]) -> list[str]:
    """Of the names in a directory those that a walk of a workspace is made for; in a trusted one, all."""
    if _trusted_part(place):
        return names
    # All names of a project pass here: the first test is quick, and the second says no more often than not.
    likely = [
        name
        for name in names
        if name[:_HEAD].lower() in _HEADS or name[-_TAIL:].lower() in _TAILS or not name.isascii()
    ]
    return [name for name in likely if why(name) or looks_secret(name) or nested.marked(place, [name])]


def why(name: str) -> str:
    """Who obeys a file of this name; empty if nobody does. Other case counts: some file systems see no difference."""
    folded = name.casefold()
    if folded in _NAMES:
        return _NAMES[folded]
    return next((text for pattern, text in _PATTERNS if pattern.match(folded)), "")


def existing(workspace: str) -> Existing:
    """The trusted places at the top of a workspace."""
    closed: list[Trusted] = []
    links: list[Trusted] = []
    with repository.opened(workspace) as root, os.scandir(root) as entries:
        for entry in entries:
            text = why(entry.name)
            if text:
                found = Trusted(path=entry.name, why=text)
                plain = entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
                (closed if plain else links).append(found)
    return Existing(closed=_ordered(closed), links=_ordered(links))


def mounts(workspace: str, found: Existing, writable: tuple[str, ...] = ()) -> tuple[Mount, ...]:
    """Each trusted place read-only, but for what the user opened (as check_writable() gave it)."""
    made: list[Mount] = []
    for item in found.closed:
        if item.path not in writable:
            made += nested.closing(workspace, item.path)
            inner = sorted(path for path in writable if path.startswith(f"{item.path}/"))
            made += [Mount(source=f"{workspace}/{path}", target=f"{workspace}/{path}") for path in inner]
    return tuple(made)


def created(before: Survey | None, after: Survey, since_ns: int, writable: tuple[str, ...] = ()) -> tuple[Trusted, ...]:
    """What is new or changed when a box has ended; without a survey of before, what changed since its start."""
    found = []
    for path, changed_ns in after.changed_ns.items():
        known = before.changed_ns.get(path) if before else None
        fresh = changed_ns >= since_ns if known is None else changed_ns != known
        if fresh and path not in writable:
            found.append(Trusted(path=path, why=why(path.rpartition("/")[2])))
    return _ordered(found)


def visible_secrets(workspace: str, entries_max: int = limits.SECRET_LOOK_ENTRIES) -> list[str]:
    """Files near the top of a workspace that look like passwords or keys."""
    survey = Survey()

    def visit(place: Place) -> list[str]:
        survey.look(place)
        return [path for path in place.listing.below if path.rpartition("/")[2] not in _SKIPPED]

    with repository.opened(workspace) as root:
        Walk(workspace, Memory(_secret_or_skipped), entries_max=entries_max).run(root, visit)
    return survey.secrets


def _secret_or_skipped(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name in _SKIPPED or looks_secret(name)]


def unmasked(secrets: Iterable[str], masks: tuple[str, ...]) -> tuple[str, ...]:
    """Those that a box will see."""
    hidden = tuple(f"{path}/" for path in masks)
    return tuple(sorted(path for path in secrets if not f"{path}/".startswith(hidden)))


def looks_secret(name: str) -> bool:
    folded = name.casefold()
    return bool(_SECRET.match(folded)) and not _HARMLESS.match(folded)


def mask_words(paths: Iterable[str]) -> str:
    """The options that hide these files, as a user would type them; a name that a terminal would obey is left out."""
    return " ".join(f"--mask {shlex.quote(path)}" for path in paths if path.isprintable())


def check_mask(workspace: str, path: str) -> str:
    """A path to hide, relative to the workspace; UserError unless it is there, inside, and not reached by a link."""
    inside = _inside(workspace, path, "--mask")
    if inside.split("/")[0] == ".git":
        raise _bad(path, "--mask", "is git's own, which the box has its own of")
    return inside


def check_writable(workspace: str, path: str) -> str:
    """A trusted place, or a part of one, that the user opens to the box; relative to the workspace."""
    inside = _inside(workspace, path, "--writable")
    if not why(inside.split("/")[0]):
        raise _bad(path, "--writable", "is not closed: only files that the host trusts are")
    return inside


def _inside(workspace: str, path: str, option: str) -> str:
    relative = os.path.relpath(path, workspace) if path.startswith("/") and ".." not in path.split("/") else path
    parts = [part for part in relative.split("/") if part not in {"", "."}]
    if not parts or ".." in parts:
        raise _bad(path, option, "is not inside the workspace")
    inside = "/".join(parts)
    with repository.opened(workspace) as root:
        try:
            fd = fs.open_beneath(root, inside, os.O_PATH)
        except OSError as error:
            reason = "does not exist" if isinstance(error, FileNotFoundError) else "is behind a link"
            raise _bad(path, option, reason) from error
    kind = os.fstat(fd).st_mode
    os.close(fd)
    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        raise _bad(path, option, "is neither a file nor a directory")
    return inside


def _bad(path: str, option: str, reason: str) -> UserError:
    message = f"{option} '{neutralise(path)}' {reason}"
    return UserError(message, hint="name a file or directory of the project", code="bad-path")


def _trusted_part(place: str) -> str:
    """The outermost trusted directory on the way to `place`."""
    parts = place.split("/") if place else []
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if why(part)), "")


def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))


def _ends(patterns: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """How each name that fits one of the patterns begins or, where that is open, ends."""
    heads = {pattern.partition("*")[0][:_HEAD] for pattern in patterns if not pattern.startswith("*")}
    tails = {pattern[-_TAIL:] for pattern in patterns if pattern.startswith("*")}
    return frozenset(heads), frozenset(tails)


def _ordered(found: list[Trusted]) -> tuple[Trusted, ...]:
    return tuple(sorted(found, key=lambda item: item.path))


_NAMES = {name: text for name, text in TRUSTED if "*" not in name}
_PATTERNS = tuple((_any((name,)), text) for name, text in TRUSTED if "*" in name)
_SECRET, _HARMLESS = _any(SECRET), _any(HARMLESS)
_HEAD, _TAIL = 3, 4
_HEADS, _TAILS = _ends(
    (*(name for name, _ in TRUSTED), *SECRET, ".git", "git~", "head", "commondir", "objects", "refs")
)
