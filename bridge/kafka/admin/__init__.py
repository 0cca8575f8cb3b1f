"""What is asked of a cluster about its topics, configs, ACLs and brokers, and what is changed there."""
