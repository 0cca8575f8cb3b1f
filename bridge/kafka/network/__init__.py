"""Connections to brokers: the client for requests, connections for large answers, what is in flight."""
