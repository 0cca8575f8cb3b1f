"""MirrorHeartbeatConnector."""
