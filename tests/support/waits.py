"""How long tests wait for what has to come."""

WAIT = 60.0
"""Seconds. What comes ends the wait, so a high bound costs nothing; on a machine at a third of the usual speed, beside
two other lanes, a driver takes more than a minute to start."""
