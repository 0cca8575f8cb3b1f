"""Translates committed offsets from all evidence there is, and plans what is committed for a group. Pure: no clock,
thread, log or I/O (tests/unit/repository/test_rooms.py)."""
