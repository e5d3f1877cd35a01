"""A living container box: its keeper, held by a pidfd, and below that its init."""

from __future__ import annotations

from paddock.engines.process.handle import ProcessHandle


class ContainerHandle(ProcessHandle):
    def __repr__(self) -> str:
        return f"<ContainerHandle {self._placement.spec.name} pid {self.evidence.pid}>"

    def is_idle(self) -> bool:
        """Below the keeper there is init alone, and nothing below that."""
        first = _children(self.evidence.pid)
        return len(first) == 1 and _children(first[0]) == []


def _children(pid: int) -> list[int]:
    """Unknown is not idle: what cannot be read counts as one that is no process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return [0]
