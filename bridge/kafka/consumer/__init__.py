"""Fetching: raw batches, look-ups of single records, tails of small topics, bounds of logs."""
