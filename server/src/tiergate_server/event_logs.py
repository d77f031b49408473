"""Opens event logs as they are configured: for a plane of its own, for looking into one, and for copying.

The domain and the command line know a log by its seam; with `app`, this is where its kinds are known.
"""

from __future__ import annotations

from tiergate_server.adapters.embedded_log import EmbeddedEventLog, read_state
from tiergate_server.adapters.embedded_log_reader import EmbeddedLogReader
from tiergate_server.config import Config
from tiergate_server.metadata.event_log import EventLogRefused, MetadataEventLog

_REACH_S = 5.0


def open_to_read(config: Config) -> MetadataEventLog:
    """A log that exists, and that its owner may go on writing. Raises EventLogRefused, MetadataLogUnavailable."""
    if config.metadata_database is not None:
        return EmbeddedLogReader(config.metadata_database)
    return open_kafka_log(config, follow=True)


def open_to_copy_from(config: Config) -> MetadataEventLog:
    """A log that exists; an embedded one is owned, so that nothing is added behind the copy's back. Raises as above."""
    if config.metadata_database is not None:
        read_state(config.metadata_database)
        return EmbeddedEventLog(config.metadata_database)
    return open_kafka_log(config, follow=True)


def open_to_write(config: Config) -> MetadataEventLog:
    """A log of one's own, which is made if need be. Raises as above."""
    if config.metadata_database is not None:
        return EmbeddedEventLog(config.metadata_database)
    return open_kafka_log(config, follow=False)


def open_kafka_log(config: Config, *, follow: bool) -> MetadataEventLog:
    # Imported here: only who keeps the log in Kafka pays for its client.
    from tiergate_server.adapters.kafka_log import KafkaEventLog  # noqa: PLC0415
    from tiergate_server.adapters.kafka_settings import KafkaLogSettings  # noqa: PLC0415

    if not config.metadata.log.startswith("kafka://"):
        raise EventLogRefused(f"{config.metadata.log} cannot be opened by another process: name a log that is stored")
    kafka = config.metadata.kafka
    # Opening is tried again and again by whoever needs the log: better told soon why it fails than late.
    return KafkaEventLog(
        KafkaLogSettings(
            bootstrap=config.metadata.log.removeprefix("kafka://"),
            topic=kafka.topic,
            partitions=kafka.partitions,
            replication=kafka.replication,
            client_id=kafka.client_id,
            client=kafka.client,
            follow=follow,
        ),
        timeout_s=_REACH_S,
    )
