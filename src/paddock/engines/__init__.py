"""How a box is isolated: one package per engine."""
