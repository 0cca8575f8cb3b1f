"""The pure core: standard library only, no clock, thread, log or I/O (tests/unit/test_rooms.py)."""
