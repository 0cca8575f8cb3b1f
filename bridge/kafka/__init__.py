"""A Kafka cluster as frozen values and small Protocols: aiokafka's connections, confluent_kafka's admin client."""
