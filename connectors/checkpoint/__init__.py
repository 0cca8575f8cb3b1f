"""MirrorCheckpointConnector."""
