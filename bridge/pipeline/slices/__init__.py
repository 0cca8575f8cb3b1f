"""What runs in a Spark task: a slice, from its lease to the last commit."""
