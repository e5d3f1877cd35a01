"""What a box sees of the user's project, and how its work comes back."""
