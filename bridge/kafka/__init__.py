"""The only room that imports confluent_kafka and aiokafka; other rooms see frozen values and small Protocols."""
