"""The service's HTTP: application, middleware, access, routes."""
