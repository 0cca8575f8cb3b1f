"""The pure core: standard library only, no clock, thread, log or I/O (tests/unit/repository/test_rooms.py)."""
