"""What a benchmark says: figures with their target, their yardsticks and a verdict, as values that become JSON.

A figure is a latency (p50 and p95 of `n` samples), a rate or an amount (the p50 of `n`, often one). Its verdict is
`holds` or `misses` only when the machine was quiet, `unclear` when it was not, and `none` without a target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "misses", "unclear", "none"]
Json = dict[str, object]

_DIGITS = 4  # significant; more would be noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Sorted measurements of one thing."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: list[float]) -> Samples:
        return cls(values=tuple(sorted(values)))

    @property
    def p50(self) -> float:
        return self._at(0.50)

    @property
    def p95(self) -> float:
        return self._at(0.95)

    def _at(self, part: float) -> float:
        return self.values[min(len(self.values) - 1, int(len(self.values) * part))]

    def to_json(self) -> Json:
        row: Json = {"n": len(self.values), "p50": rounded(self.p50)}
        if len(self.values) >= 20:  # below that a 95th percentile is just the worst one
            row["p95"] = rounded(self.p95)
        return row | {"min": rounded(self.values[0]), "max": rounded(self.values[-1])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What the figure is held against, measured in the same rounds; or why it is missing."""

    name: str
    samples: Samples | None = None
    absent: str = ""

    def to_json(self, subject: Samples) -> Json:
        if self.samples is None:
            return {"name": self.name, "absent": self.absent}
        ratio = subject.p50 / self.samples.p50 if self.samples.p50 else None
        return {"name": self.name, **self.samples.to_json(), "ratio": None if ratio is None else rounded(ratio)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The architecture's number, in the figure's unit."""

    p50_most: float | None = None
    p95_most: float | None = None
    p50_least: float | None = None

    def holds(self, samples: Samples) -> bool:
        return (
            (self.p50_most is None or samples.p50 <= self.p50_most)
            and (self.p95_most is None or samples.p95 <= self.p95_most)
            and (self.p50_least is None or samples.p50 >= self.p50_least)
        )

    def to_json(self) -> Json:
        names = ("p50_most", "p95_most", "p50_least")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of the report."""

    name: str
    what: str
    unit: str
    samples: Samples
    target: Target | None = None
    yardsticks: tuple[Yardstick, ...] = ()
    note: str = ""

    def verdict(self, *, quiet: bool) -> Verdict:
        if self.target is None:
            return "none"
        if not quiet:
            return "unclear"
        return "holds" if self.target.holds(self.samples) else "misses"

    def to_json(self, *, quiet: bool) -> Json:
        row: Json = {"name": self.name, "what": self.what, "unit": self.unit, **self.samples.to_json()}
        row["target"] = self.target.to_json() if self.target else None
        row["verdict"] = self.verdict(quiet=quiet)
        row["yardsticks"] = [yardstick.to_json(self.samples) for yardstick in self.yardsticks]
        return row | ({"note": self.note} if self.note else {})


def amount(value: float) -> Samples:
    return Samples(values=(value,))


def rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
