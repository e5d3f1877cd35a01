"""What a box gets of the secrets it was given, and what the gateway is told: the placeholder here, the value there."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from paddock.errors import UserError
from paddock.secrets import githelper, services, sources
from paddock.secrets.binding import Binding, Words, bind
from paddock.secrets.placeholder import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from paddock.secrets.placeholder import Random
    from paddock.secrets.record import Source
    from paddock.secrets.value import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A secret that a box may use. It is kept with the box, so that commands it started know the same placeholder."""

    binding: Binding
    placeholder: str

    @property
    def name(self) -> str:
        return self.binding.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A known service's secret in the caller's shell."""

    service: str
    variable: str

    def binding(self) -> Binding:
        """As the service's own; the box has it in the same variable too."""
        known = bind(self.service, Words())
        return replace(known, env=tuple(dict.fromkeys((*known.env, self.variable))))

    def source(self) -> Source:
        return sources.from_env(self.variable)


def exported(environ: Mapping[str, str]) -> tuple[Exported, ...]:
    """The known services of which a variable is set; of several variables the first that the table names."""
    found = []
    for service in services.SERVICES:
        variables = [variable for variable in (*service.env, *service.also) if environ.get(variable)]
        if variables:
            found.append(Exported(service=service.name, variable=variables[0]))
    return tuple(found)


def hold(
    bindings: Iterable[Binding], known: Mapping[str, str] | None = None, random: Random = os.urandom
) -> tuple[Held, ...]:
    """Placeholders for a box: those that it has by name, new ones for the rest.

    UserError if one name or one variable would stand for two secrets.
    """
    had = known or {}
    held = tuple(
        Held(binding=item, placeholder=had.get(item.name) or make(services.shape_of(item.name), random))
        for item in bindings
    )
    _check_apart([(item.name, item.name) for item in held], "are one")
    _check_apart([(variable, item.name) for item in held for variable in item.binding.env], "would both be")
    return held


def _check_apart(claims: list[tuple[str, str]], what: str) -> None:
    claimed: dict[str, str] = {}
    for word, name in claims:
        if word in claimed:
            message = f"the secrets '{claimed[word]}' and '{name}' {what} {word}"
            raise UserError(message, hint="leave one out, or give it another --env", code="secret-clash")
        claimed[word] = name


def environment(held: Sequence[Held]) -> dict[str, str]:
    """For the box: its variables, with placeholders, and what its git answers with."""
    variables = {variable: item.placeholder for item in held for variable in item.binding.env}
    words = githelper.words((item.binding, item.placeholder) for item in held)
    return variables | ({githelper.VARIABLE: words} if words else {})


def entries(held: Sequence[Held], values: Mapping[str, Secret]) -> list[dict[str, object]]:
    """For the gateway alone, by a descriptor and never by a file: here the values are in the plain.

    A name without a value is missing: the gateway answers requests that need it with its name.
    """
    return [_entry(item, values.get(item.name)) for item in held]


def _entry(item: Held, value: Secret | None) -> dict[str, object]:
    bound = item.binding
    scope = None if bound.git is None else {"repos": list(bound.git.repos), "write": bound.git.write}
    return {
        "name": item.name,
        "placeholder": item.placeholder,
        "value": "" if value is None else value.reveal(),
        "missing": value is None,
        "hosts": list(bound.hosts),
        "port": bound.port,
        "scheme": bound.scheme,
        "headers": list(bound.headers),
        "body": bound.body,
        "query": bound.query,
        "git": scope,
    }
