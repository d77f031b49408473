"""The real Kafka beside which the metadata is measured: a broker whose topic holds given events, and its own cache.

Broker and jars are those of the tests; nothing of Kafka is stored here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from scale_events import EVENTS_PER_SEGMENT, METADATA_PARTITIONS, read_events
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.kafka_broker import running_broker
from support.kafka_jars import java_program, kafka_libs

_SOURCE = Path(__file__).parent / "jvm" / "KafkaMetadataCache.java"
_HEAP = "-Xmx4g"
_FLUSH_S = 60


def kafka_cache(events: Path, directory: Path) -> Mapping[str, float]:
    """What Kafka's own cache, in a JVM of its own, took for the events of the file."""
    jars = f"{kafka_libs()}/*"
    subprocess.run(["javac", "-d", str(directory), "-cp", jars, str(_SOURCE)], check=True)
    class_path = os.pathsep.join((str(directory), jars))
    command = [java_program(), _HEAP, "-cp", class_path, _SOURCE.stem, str(events)]
    measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return measured


@contextmanager
def topic_of(events: Path, directory: Path, *, segments: int) -> Iterator[str]:
    """A broker whose metadata topic holds the events of the file's first segments; where to reach it."""
    with running_broker(directory) as broker:
        settings = KafkaLogSettings(bootstrap=broker.bootstrap, partitions=METADATA_PARTITIONS, replication=1)
        KafkaEventLog(settings).close()  # which makes the topic
        producer = Producer({**settings.producer(), "linger.ms": "50", "queue.buffering.max.messages": "100000"})
        left = segments * EVENTS_PER_SEGMENT
        for batch in read_events(events):
            for home, event in islice(batch, left):
                producer.produce(settings.topic, event, partition=home)
            left -= min(left, len(batch))
            producer.flush(_FLUSH_S)
            if not left:
                break
        yield broker.bootstrap
