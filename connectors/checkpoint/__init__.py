"""BridgeMirrorCheckpointConnector: emits checkpoints for Connect to write, and commits groups' offsets."""
