"""What model requests cost, read from the wire, and budgets. Pure: no I/O but the reading of its own price list."""
