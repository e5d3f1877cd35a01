"""Secrets on the host: where their values come from, where each may go, and what a box gets in their place."""
