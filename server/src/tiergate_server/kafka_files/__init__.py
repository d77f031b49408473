"""The files of a Kafka partition directory: their formats, reading one, and making a sample of one."""
