"""Producing: senders of raw batches, transactions, writers of state topics."""
