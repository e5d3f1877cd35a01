"""What runs inside every box."""
