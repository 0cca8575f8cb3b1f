"""Layouts as queries of Spark: under a session, and on a Spark Connect server."""
