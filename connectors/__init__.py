"""The connectors: one folder each, deciding only; clusters are reached through the Protocols of `ports`."""
