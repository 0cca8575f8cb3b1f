"""The subcommands of `mirror-bridge`."""
