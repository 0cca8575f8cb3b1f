"""Builds the service's answers about groups, flows and readiness, from snapshots. Pure."""
