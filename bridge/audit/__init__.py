"""Compares a log with its copy: which stretches belong together, and how their records differ. Pure."""
