"""The SDK on blocking calls."""
