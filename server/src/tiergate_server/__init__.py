"""Tiergate's server: both planes and the command line."""
