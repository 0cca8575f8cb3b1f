"""The FastAPI service: routes over snapshots and a task table; rounds run in a process of their own."""
