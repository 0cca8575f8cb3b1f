"""Subcommands of `mirror-bridge` that ask a cluster."""
