"""Connections to brokers: the client, connections for large requests and responses, what is in flight."""
