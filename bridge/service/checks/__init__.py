"""What is checked of a configuration before a connector runs."""
