"""How a box is isolated: one module or package per engine, one interface (base)."""
