"""Benchmarks: `make bench`, or one with `make bench NAME=lookups`. Not part of the test run.

Machines are noisy: what counts is the ratio of two sides measured in one run. Each writes `.local/bench/NAME.json`.
Those of the copy (replicate, distance, latency, scale) take hours; MIRROR_BRIDGE_BENCH_SCALE=0.1 makes them a tenth.
"""
