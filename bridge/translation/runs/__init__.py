"""Committed offsets translated by offset runs: what a copy wrote of what it copied."""
