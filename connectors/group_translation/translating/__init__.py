"""Where committed offsets stand on the other cluster: verdicts, what they rest on, and what is kept of them."""
