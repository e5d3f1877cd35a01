"""Errands to registries: skopeo in a box of its own, which reaches that registry and has nothing else.

Theory. skopeo is the host's program, and what a registry says to it is hostile, so it runs in a box of one command: a
directory of ours is all that it can write, the gateway all that it can reach, and its credentials are placeholders.
What it brings back counts only by sums that we take ourselves.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.model import BoxRequest, ExecSpec, Limits, Network, NetworkRule, SecretUse
from paddock.runtime import commands, execution
from paddock.secrets.value import Secret
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.remote import Remote
    from paddock.runtime.core import Runtime

    Script = Callable[[Callable[[str], str]], str]

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SAID_CHARS: Final = 600
_USER: Final = re.compile(r"[\w.@+-]{1,100}", re.ASCII)
# Where layers of an image without a host lie: the registries' own domains.
_USUAL_PRESET: Final = "containers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What an errand may use beyond the registry's own host."""

    network: Network = field(default_factory=Network)
    secret: SecretUse | None = None  # the password, of which the box has a placeholder
    user: str = ""
    given: dict[str, Secret] = field(default_factory=dict)


async def run(runtime: Runtime, remote: Remote, errand: Errand, script: Script, place: str) -> None:
    """Run a script in `place`; UserError with what skopeo said if it fails. May take long.

    In it `$IMAGE` is the image. It is made of words about the registry, which differ by who is to take them.
    """
    if shutil.which("skopeo", path=_PATH) is None:
        hint = "install the package skopeo"
        raise Unavailable("there is no skopeo, which speaks to registries", hint=hint, code="no-skopeo")
    tls = "false" if remote.is_here else "true"
    env = {"IMAGE": f"docker://{remote.address}", "TMPDIR": place, "TLS": tls, "LOGIN": errand.user}
    variable = _variable(runtime, errand)
    request = BoxRequest(
        workspace=place,
        env=env,
        limits=Limits(wall_s=limits.REGISTRY_S, disk_bytes=limits.IMAGE_BYTES),
        ephemeral=True,
        caller_path=_PATH,
        network=_network(remote, errand.network),
        secrets=(errand.secret,) if errand.secret else (),
    )
    text = f"set -e; {script(lambda kind: _words(kind, variable))}"
    spec = ExecSpec(argv=("/bin/sh", "-c", text), timeout_s=limits.REGISTRY_S)
    box, _, channel = await execution.run(runtime, request, spec, errand.given, place=place)
    try:
        with channel:
            code, said = await commands.finish(channel, limits.REGISTRY_S + limits.REGISTRY_END_S)
    except BaseException:  # nobody waits for it any more, or it says what it should not
        await asyncio.shield(runtime.lifetimes.undo(box))
        raise
    if code:
        raise _failed(remote, code, said)


def _variable(runtime: Runtime, errand: Errand) -> str:
    """Which of the box's has the placeholder of the password; empty if nobody logs in."""
    if errand.secret is None:
        return ""
    if not _USER.fullmatch(errand.user):
        raise UserError(f"{errand.user[:40]!r} is no user of a registry", hint="--user NAME", code="bad-user")
    (held,) = runtime.credentials.hold((errand.secret,), {})
    return next(name for name in held.binding.env if name.isidentifier())


def _words(kind: str, variable: str) -> str:
    creds = f' --{kind}creds "$LOGIN:${variable}"' if variable else ""
    return f'--{kind}tls-verify="$TLS"{creds}'


def _network(remote: Remote, network: Network) -> Network:
    own = NetworkRule(action="allow", pattern=remote.pattern)
    presets = (*network.presets, *((_USUAL_PRESET,) if remote.is_usual else ()))
    return replace(network, rules=(own, *network.rules), presets=tuple(dict.fromkeys(presets)))


def _failed(remote: Remote, code: int, said: bytes) -> UserError:
    words = neutralise(said.decode(errors="replace").strip(), _SAID_CHARS)
    if code == 124:
        return UserError(f"{remote} took longer than {limits.REGISTRY_S:.0f} s", code="timeout")
    hint = "layers may lie on another host: `paddock network log` shows what was refused; --allow-host, or --preset"
    return UserError(f"skopeo could not do it for {remote}: {words}", hint=hint, code="registry")


def directory(lease_staging: str) -> str:
    """Gone with the lease, whoever dies."""
    place = f"{lease_staging}/{os.urandom(8).hex()}"
    os.mkdir(place, 0o700)
    return place
