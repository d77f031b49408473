"""Pipelines on Spark, each a function and a command of `tiergate-spark`."""
