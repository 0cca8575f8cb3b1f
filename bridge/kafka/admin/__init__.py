"""Administration of a cluster: topics, configs and ACLs by confluent_kafka; of what is not, decision 0040 says why."""
