"""Generated protobuf messages and gRPC stubs of Tiergate's wire; the .proto files beside them are its specification."""
