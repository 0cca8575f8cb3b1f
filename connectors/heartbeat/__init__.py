"""BridgeMirrorHeartbeatConnector: emits heartbeats for Connect to write."""
