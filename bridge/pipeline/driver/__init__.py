"""The driver process, from both ends: what starts it, and what runs in it."""
