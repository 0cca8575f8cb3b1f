"""Checks configurations before a connector runs."""
