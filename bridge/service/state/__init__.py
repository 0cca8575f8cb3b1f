"""The state of the HTTP process: tasks, leases, the outbox, snapshots, operations."""
