"""The HTTP contract (/v1) between the shim, the service and operators: its messages, and openapi.json."""
