"""The composition root: the only package that wires store, engines and boxes together."""

from paddock.runtime.core import Runtime

__all__ = ["Runtime"]
