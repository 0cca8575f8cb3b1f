"""`mirror-bridge demo`: consumer groups fail over between two real clusters, and every claim is checked by brute force.

The truth (logs.py, expected.py) is computed from both logs read whole, with a client of its own: nothing of
bridge.translation or bridge.kafka is used to judge what they answered.
"""
