"""MirrorGroupOffsetConnector: consumer groups of the source resume on the target at the exact record."""
