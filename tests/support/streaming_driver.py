"""A streaming query as a program of its own, which can be killed: `python -m support.streaming_driver '<JSON>'`.

The JSON has the options of the source, and the directories of the sink and of the checkpoint.
"""

from __future__ import annotations

import json
import sys

from support.spark import running_spark


def main() -> None:
    asked = json.loads(sys.argv[1])
    with running_spark() as spark:
        frame = spark.readStream.format("tiergate").options(**asked["options"]).load()
        query = (
            frame.writeStream.format("parquet").option("checkpointLocation", asked["checkpoint"]).start(asked["output"])
        )
        query.awaitTermination()


if __name__ == "__main__":
    main()
