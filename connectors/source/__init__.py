"""BridgeMirrorSourceConnector: which topics it mirrors with their configs and ACLs, and what its pipeline copies."""
