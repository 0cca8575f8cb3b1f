"""Audits of mirrors as Spark jobs. Imports nothing: executors have no configuration of connectors."""
