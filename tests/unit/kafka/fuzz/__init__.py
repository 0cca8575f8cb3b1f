"""Bytes as nobody should send them, by the thousand: golden ones with something wrong, each by its number.

    python -m tests.unit.kafka.fuzz KIND SECONDS SEED NOTE

Runs in a process of its own, with a limit to its memory. Before each case it writes the number into the file NOTE, so
that whoever watches it knows which case it hangs at, or died of. To run one again:

    python -m tests.unit.kafka.fuzz KIND 0 SEED NOTE NUMBER
"""
