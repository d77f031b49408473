"""Where PySpark looks for data sources by itself: makes `format("tiergate")` known to every session."""

from tiergate_spark.source import TiergateDataSource as DefaultSource

__all__ = ["DefaultSource"]
