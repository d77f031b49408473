"""The metadata domain: events, what they mean, and who answers questions about them. Knows neither gRPC nor Kafka."""
