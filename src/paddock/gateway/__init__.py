"""The gateway: the only way out of a box. One jailed process for all boxes of a user."""
