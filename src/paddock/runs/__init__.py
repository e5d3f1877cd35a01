"""Records of the runs of agents: what one holds, how its end is understood, where it is kept."""
