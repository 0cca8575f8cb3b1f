"""Administration of a cluster: topics, configs and ACLs by confluent_kafka. Decision 0040 lists
the requests that are our own, and why."""
