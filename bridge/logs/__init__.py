"""Logs of every process: the form of a line, the set-up, and the forwarding of lines from child processes."""
