"""What boxes have of the host besides their own directories: /etc, small programs of ours, toolchains, variables.

Looking whether the host changed costs time, so what was seen counts for a moment.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from paddock.engines.process import etc, operations, shims, toolchains
from paddock.engines.process.hostprograms import SYSTEM_PATH

if TYPE_CHECKING:
    from paddock.engines.base import Placement
    from paddock.engines.process.toolchains import Toolchains

_TOOLCHAINS_FRESH_S = 5.0
_VIEW_FRESH_S = 1.0
# How programs are told which authorities to trust.
_TRUST = dict.fromkeys(
    (
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
        *("CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "CODEX_CA_CERTIFICATE", "PIP_CERT"),
    ),
    operations.CA_BUNDLE,
)


class HostView:
    """`directory` is where what all boxes share is made; `uid` and `gid` are the user's in a box."""

    def __init__(self, directory: str, *, uid: int, gid: int) -> None:
        self._directory = directory
        self._uid = uid
        self._gid = gid
        self._shared: tuple[float, str, str] | None = None
        self._toolchains: dict[tuple[str, str], tuple[float, toolchains.Toolchains]] = {}

    def __repr__(self) -> str:
        return f"<HostView {self._directory}>"

    def shared(self) -> tuple[str, str]:
        """The directories that are a box's /etc and our programs in it."""
        now = time.monotonic()
        if self._shared is None or now - self._shared[0] > _VIEW_FRESH_S or not os.path.isdir(self._shared[1]):
            etc_dir = etc.prepare(f"{self._directory}/etc", uid=self._uid, gid=self._gid, shell=_default_shell())
            self._shared = (now, etc_dir, shims.prepare(f"{self._directory}/shims"))
        return self._shared[1:]

    def toolchains(self, path: str, home: str) -> toolchains.Toolchains:
        """Those of a caller, by its PATH and its home."""
        found = self._toolchains.get((path, home))
        now = time.monotonic()
        if found is None or now - found[0] > _TOOLCHAINS_FRESH_S:
            found = (now, toolchains.find(path, home))
            self._toolchains[path, home] = found
        return found[1]

    def environment(
        self, placement: Placement, found: Toolchains | None = None, system: tuple[str, ...] = SYSTEM_PATH
    ) -> dict[str, str]:
        """With the caller's toolchains unless others are `found`; `system` is where the root has its programs."""
        spec = placement.spec
        if found is None:
            found = self.toolchains(spec.caller_path, spec.caller_home)
        tools = (f"{mount.target}/bin" for mount in placement.tools)
        path = (*tools, f"{operations.RUN}/bin", *found.path, *system)
        return {
            "HOME": operations.HOME,
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": _default_shell(),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": "/tmp",
            "PADDOCK_BOX": spec.name,
            "PATH": ":".join(dict.fromkeys(path)),
            **found.env,
            **(_TRUST if os.path.isfile(f"{placement.directory}/net/bundle.pem") else {}),
        }


def _default_shell() -> str:
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
