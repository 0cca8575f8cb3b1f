"""MirrorSourceConnector."""
