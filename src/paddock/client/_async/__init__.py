"""The SDK on an event loop: the source of both."""
