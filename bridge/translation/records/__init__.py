"""Translates committed offsets by the records around them in both logs."""
