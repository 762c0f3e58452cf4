"""`bench/run kafka`: from Kafka to Kafka in JSON, by a real broker on loopback, beside Spark and Flink."""
