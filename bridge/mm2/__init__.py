"""MirrorMaker 2's own rules: policies, filters, offset syncs, checkpoints and their bytes. Pure."""
