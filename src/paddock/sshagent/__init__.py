"""The user's ssh-agent for a box: chosen keys, for logging in to chosen hosts, and nothing else."""
