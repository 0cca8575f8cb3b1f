"""What the service answers about groups, flows and readiness, from snapshots. Pure."""
