"""The segment domain: how a segment becomes readable, is read, and goes. Knows neither gRPC nor a storage SDK."""
