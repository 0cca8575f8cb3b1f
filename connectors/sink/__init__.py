"""BridgeMirrorSinkConnector: copies what a sink connector at the source is subscribed to."""
