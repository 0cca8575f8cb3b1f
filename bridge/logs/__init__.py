"""Logs of every process: how a line looks, what is logged, and how lines of a child get into its parent's log."""
