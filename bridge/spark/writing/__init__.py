"""`mirror-records` as a sink: rows of a batch or a stream as records of a cluster, exactly once.

A task of Spark writes its rows in one transaction, together with a record that says so (`commits`). Who runs the task
again takes over the task's transactional id, which ends what an older attempt has open, and looks for that record.
"""
