"""The state of agents whose boxes are gone: kept for the next box of the same agent and directory.

The whole home moves here in one step, and what is state of it moves back in one step: whoever is killed in between
leaves it in one place. What is not state is dropped while it lies here. Links move as links, and none is followed. Of
a home that stands on layers others may have too, what is state is copied first, to `part`.

    kept/DIGEST/about.json, state/        what the next box gets as its home
    kept/new-ID/about.json, home/, state/    on its way; `settle` finishes it
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import threading
from dataclasses import dataclass

from paddock import codec, fs
from paddock.errors import PaddockError, Unavailable
from paddock.fs.walk import PLACE, open_up
from paddock.limits import KEPT_STATES_MAX
from paddock.runtime import apart
from paddock.store import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.runtime.homes import Home

log = logging.getLogger(__name__)
_NEW, _ABOUT, _PART, _HOME, _STATE = "new-", "about.json", "part", "home", "state"
_ABOUT_BYTES = 1 << 20
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    agent: str
    workspace: str
    paths: tuple[str, ...]  # of a home, what is state
    kept_at: str


class Kept:
    """Everything waits for the disk."""

    def __init__(self, directory: str, trash: str) -> None:
        self._directory = directory
        self._trash = trash
        self._lock = threading.Lock()
        self._dropped: list[str] = []

    def __repr__(self) -> str:
        return f"<Kept {self._directory}>"

    def keep(self, box_id: str, agent: str, workspace: str, home: Home, paths: Sequence[str]) -> bool:
        """Take the home of a box that does not run; False if it has none of these paths. Replaces what was kept."""
        with self._lock:
            fs.make_private_dir(self._directory)
            fresh = f"{self._directory}/{_NEW}{box_id}"
            self._drop(fresh)
            about = About(agent=agent, workspace=workspace, paths=tuple(paths), kept_at=now())
            try:
                os.mkdir(fresh, 0o700)
                fs.write_atomic(f"{fresh}/{_ABOUT}", json.dumps(codec.to_wire(about)).encode())
                if fs.is_missing(home.upper):
                    self._drop(fresh)
                    return False
                if home.below:
                    apart.flatten([*home.below, home.upper], _apart(paths), f"{fresh}/{_PART}")
                    os.rename(f"{fresh}/{_PART}", f"{fresh}/{_HOME}")
                else:
                    fs.move_tree(home.upper, f"{fresh}/{_HOME}")
                return self._publish(fresh, about)
            except OSError as error:
                raise Unavailable(f"the state of {agent} was not kept: {error.strerror}", code="not-kept") from error

    def take(self, agent: str, workspace: str, home: str) -> About | None:
        """Give what was kept to a box whose home is empty or not there; it is no longer kept then."""
        place = f"{self._directory}/{_digest(agent, workspace)}"
        with self._lock:
            if fs.is_missing(f"{place}/{_STATE}"):
                return None
            try:
                about = _read(place)
                fs.move_tree(f"{place}/{_STATE}", home)  # over an empty directory, or where none is
            except (OSError, PaddockError) as error:
                if not isinstance(error, OSError) or error.errno not in _OCCUPIED:
                    log.warning("the state of %s in %s: %s", agent, workspace, error)
                return None
            self._drop(place)
            return about

    def settle(self) -> None:
        """Finish what an earlier daemon did not."""
        with self._lock:
            for name in self._names():
                place = f"{self._directory}/{name}"
                try:
                    if name.startswith(_NEW) and not _is_empty(place):
                        self._publish(place, _read(place))
                    elif name.startswith(_NEW) or fs.is_missing(f"{place}/{_STATE}"):
                        self._drop(place)
                except (OSError, PaddockError) as error:
                    log.warning("the kept state %s: %s", place, error)

    def drop_all(self) -> None:
        with self._lock:
            for name in self._names():
                self._drop(f"{self._directory}/{name}")

    def dropped(self) -> list[str]:
        """What was moved to the trash since this was last asked."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
            return dropped

    def _publish(self, fresh: str, about: About) -> bool:
        found = _gather(fresh, about.paths)
        self._drop(f"{fresh}/{_HOME}")
        if not found:
            self._drop(fresh)
            return False
        place = f"{self._directory}/{_digest(about.agent, about.workspace)}"
        self._drop(place)
        os.rename(fresh, place)
        fs.sync_directory(self._directory)
        self._bound()
        return True

    def _bound(self) -> None:
        kept = [f"{self._directory}/{name}" for name in self._names() if not name.startswith(_NEW)]
        kept.sort(key=lambda place: os.stat(f"{place}/{_ABOUT}").st_mtime_ns)
        for place in kept[:-KEPT_STATES_MAX]:
            self._drop(place)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._directory)
        except FileNotFoundError:
            return []

    def _drop(self, place: str) -> None:
        if not fs.is_missing(place):
            self._dropped.append(fs.discard_tree(place, self._trash))


def _digest(agent: str, workspace: str) -> str:
    return hashlib.sha256(os.fsencode(f"{agent}\0{workspace}")).hexdigest()[:32]


def _read(place: str) -> About:
    with open(f"{place}/{_ABOUT}", "rb") as file:
        data = file.read(_ABOUT_BYTES)
    try:
        return codec.from_wire(About, json.loads(data))
    except ValueError as error:
        raise Unavailable(f"{place}/{_ABOUT} is damaged", code="kept") from error


def _is_empty(place: str) -> bool:
    return fs.is_missing(f"{place}/{_HOME}") and fs.is_missing(f"{place}/{_STATE}")


def _gather(fresh: str, paths: Sequence[str]) -> bool:
    """What is state goes from `home` to `state`; whoever is killed meanwhile goes on from there. Was there any?

    # TRUST: an agent wrote that home. Directories are entered without following a link, entries moved as they are.
    """
    state = f"{fresh}/{_STATE}"
    if fs.is_missing(state):
        os.mkdir(state, 0o700)
    home = _opened(f"{fresh}/{_HOME}")
    if home >= 0:
        try:
            for path in _apart(paths):
                _move(home, state, path)
        finally:
            os.close(home)
    with os.scandir(state) as entries:
        return any(entries)


def _apart(paths: Sequence[str]) -> list[str]:
    """Plain ones, and none that lies in another."""
    plain = [path for path in paths if path and not {"", ".", ".."} & set(path.split("/"))]
    return [path for path in plain if not any(path.startswith(f"{other}/") for other in plain)]


def _move(home: int, state: str, path: str) -> None:
    *way, name = path.split("/")
    at = os.dup(home)
    try:
        for step in way:
            below = _opened(step, at)
            os.close(at)
            at = below
            if at < 0:
                return
        place = "/".join((state, *way))
        os.makedirs(place, 0o755, exist_ok=True)
        _rename(at, name, f"{place}/{name}")
    finally:
        if at >= 0:
            os.close(at)


def _rename(at: int, name: str, place: str) -> None:
    try:
        os.rename(name, place, src_dir_fd=at)
    except FileNotFoundError:
        return
    except PermissionError:
        below = _opened(name, at)  # its own mode forbids that it gets another parent
        if below < 0:
            raise
        os.close(below)
        os.rename(name, place, src_dir_fd=at)


def _opened(name: str, at: int | None = None) -> int:
    """A directory that may be used as its owner could; -1 if there is none of this name."""
    try:
        fd = os.open(name, PLACE, dir_fd=at)
    except OSError as error:
        if fs.is_scarcity(error):
            raise
        return -1
    open_up(fd)
    return fd
