"""Boxes with a root file system of their own, started by an OCI runtime."""
