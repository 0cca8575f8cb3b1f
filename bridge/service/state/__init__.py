"""What the HTTP process keeps: tasks, leases, the outbox, snapshots, operations."""
