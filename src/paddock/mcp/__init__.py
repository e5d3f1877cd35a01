"""MCP servers that a user names for a box: where they are written down, and how an agent is told of them."""
