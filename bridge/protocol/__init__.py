"""What crosses HTTP between the shim, the service and operators (design: the HTTP contract, /v1)."""
