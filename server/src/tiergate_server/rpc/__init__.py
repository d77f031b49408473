"""The gRPC edge: servicers, interceptors, status. Decides nothing itself."""
