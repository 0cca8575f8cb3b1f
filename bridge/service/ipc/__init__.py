"""Messages between the HTTP process and the rounds process."""
