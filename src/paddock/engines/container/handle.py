"""A living container box: its keeper, held by a pidfd, and below that its init."""

from __future__ import annotations

from paddock.engines.container import gvisor
from paddock.engines.process import init_socket
from paddock.engines.process.handle import ProcessHandle


class ContainerHandle(ProcessHandle):
    def __repr__(self) -> str:
        return f"<ContainerHandle {self._placement.spec.name} pid {self.evidence.pid}>"

    @property
    def keeps_names(self) -> bool:  # type: ignore[override]
        """gVisor's process for files holds those that were used open, and so the kernel does not forget them."""
        return self._placement.spec.runtime == gvisor.NAME

    def is_idle(self) -> bool:
        """Below the keeper there is init alone, and nothing below that; or a kernel of its own, which is asked."""
        if self._placement.spec.runtime == gvisor.NAME:
            return init_socket.ask_alone(self._placement)
        first = _children(self.evidence.pid)
        return len(first) == 1 and _children(first[0]) == []


def _children(pid: int) -> list[int]:
    """Unknown is not idle: what cannot be read counts as one that is no process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return [0]
