"""A user's own settings of an agent, as a box may have them: a copy, bounded, without anything that looks secret."""
