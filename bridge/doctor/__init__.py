"""What is wrong with a connector's configuration, its clusters and its machine: facts in, findings out."""
