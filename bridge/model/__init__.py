"""Values that every room shares: offsets, verdicts, progress of a copy, topics, assignment. Pure."""
