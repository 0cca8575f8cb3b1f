"""The routes, in a module for each first part of the path. Each parses a request, calls the service, and responds."""
