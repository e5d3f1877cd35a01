"""Git over HTTPS in a box: a credential helper that answers with placeholders, for the hosts of secrets alone.

The helper is a line of every box's own /etc/gitconfig, which no git of the host reads. Which hosts it answers for comes
with the environment of each command, so a secret that is lent later works at once. It has nothing to protect: whatever
it says, the gateway puts the value into requests to the secret's hosts only.
"""

from __future__ import annotations

from typing import Final

from paddock.secrets import services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.secrets.binding import Binding

VARIABLE: Final = "PADDOCK_GIT"  # words of SCHEME://HOST=PLACEHOLDER; in HOST a * stands for what a pattern's does
_USER: Final = "x-access-token"  # what the forges call whoever comes with a token
HELPER: Final = (
    '!f() { test "$1" = get || exit 0; set -f; while IFS== read -r k v; do case $k in '
    "protocol) at=$v;; host) at=$at://$v;; username) user=$v;; esac; done; "
    f"for word in ${VARIABLE}; do case $at in ${{word%=*}}) "
    f'echo "username=${{user:-{_USER}}}"; echo "password=${{word##*=}}"; exit 0;; esac; done; }}; f'
)


def words(held: Iterable[tuple[Binding, str]]) -> str:
    """The variable's value for a box that has these placeholders; empty if git has no use for any."""
    return " ".join(f"{place}={placeholder}" for bound, placeholder in held for place in _places(bound))


def _places(bound: Binding) -> list[str]:
    """Where git is asked for a password: it goes by Basic authorisation or not at all."""
    if bound.headers and "authorization" not in bound.headers:
        return []
    service = services.find(bound.name)
    hosts = service.git_hosts if service and bound.hosts == service.hosts else bound.hosts
    usual = {"https": 443, "http": 80}[bound.scheme] == bound.port
    return [f"{bound.scheme}://{host if usual or ':' in host else f'{host}:{bound.port}'}" for host in hosts]
