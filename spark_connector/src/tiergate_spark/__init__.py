"""A topic's history in the remote tier as a DataFrame: the PySpark data source `tiergate`."""

from tiergate_spark.shipping import ship
from tiergate_spark.source import TiergateDataSource, register

__all__ = ["TiergateDataSource", "register", "ship"]
