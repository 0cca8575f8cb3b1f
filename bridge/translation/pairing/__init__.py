"""Pairs the records of a log with the copies that another mirror has made of them."""
