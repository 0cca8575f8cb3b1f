"""Committed offsets translated by the records around them in both logs."""
