"""The rounds process: runs connectors and publishes what they find."""
