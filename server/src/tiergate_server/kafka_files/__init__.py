"""Writes the files of a Kafka partition directory, for a sample of one. Reading one is `tiergate_client.local_log`."""
