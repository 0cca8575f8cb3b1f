"""Benchmarks: `make bench`, or one with `make bench NAME=lookups`. Not part of the test run.

Machines are noisy: what counts is the ratio of two sides measured in one run. Each writes `.local/bench/NAME.json`.
"""
