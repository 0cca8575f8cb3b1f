"""What connectors that translate offsets of consumer groups share: judging, committing, reporting, and the life of an
instance."""
