"""`mirror-bridge demo`: consumer groups fail over between two real clusters, and every claim is checked by brute force.

The expected offsets (logs.py, expected.py) come from both logs read whole, with another client: nothing of
bridge.translation or bridge.kafka is used to check their own results.
"""
