"""Dedicated mode: flows between clusters from one file, as of connect-mirror-maker.sh, without a Connect worker."""
