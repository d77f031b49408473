"""Thin client of Tiergate, Kafka's remote tier as a network service."""
