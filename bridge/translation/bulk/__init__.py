"""Translates many offsets of a partition at once, by arrays."""
