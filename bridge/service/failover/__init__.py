"""Failover, rollback and failback: the plan and the requests for each step."""
