"""The driver of a Spark cluster of processes, run as a program: reads as it is told, a line for each.

In: the options of a read as JSON, with a checkpoint those of a stream, or "ship". Out: the offsets that were read,
where the source is imported from, or the error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from support.spark import SPARK_SETTINGS
from tiergate_spark import register, ship


def main() -> None:
    builder = SparkSession.builder.appName("tests")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    say({"ready": imported_from(spark)})
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            if asked == "ship":
                ship(spark)
                say({"shipped": imported_from(spark)})
                continue
            checkpoint = asked.pop("checkpoint", None)
            if checkpoint is None:
                frame = spark.read.format("tiergate").options(**asked).load()
            else:
                frame = streamed(spark, asked, checkpoint)
            say({"offsets": frame.select("offset").toArrow()["offset"].to_pylist()})
        except Exception as error:  # noqa: BLE001 - told to whoever reads this
            say({"error": str(error)})
    spark.stop()


def streamed(spark: SparkSession, options: dict[str, str], checkpoint: str) -> DataFrame:
    """What a stream brings to its end, each micro-batch by way of a file."""
    written = f"{checkpoint}-rows"
    stream = spark.readStream.format("tiergate").options(**options).load()
    sink = stream.writeStream.format("parquet").options(path=written, checkpointLocation=checkpoint)
    sink.trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(written)


def imported_from(spark: SparkSession) -> str:
    """Where executors have the package from."""

    @udf
    def place() -> str:
        import tiergate_spark  # noqa: PLC0415 - on the executor

        return str(tiergate_spark.__file__)

    return str(spark.range(1).select(place()).collect()[0][0])


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
