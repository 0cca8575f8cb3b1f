"""Translates committed offsets by offset runs, which copying writes with the records it copies."""
