"""Every setting of the server: its type, its default and what it means. The reference in the docs is made from this.

Where values come from is not decided here: see `tiergate_server.config.loading`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from tiergate_server.config.errors import ConfigError
from tiergate_server.config.fields import setting, table_setting
from tiergate_server.config.kinds import (
    Kind,
    address,
    choice,
    directory,
    integer,
    metadata_log,
    seconds,
    segments_store,
    table,
    text,
)
from tiergate_server.config.quotas import QuotaConfig
from tiergate_server.config.s3 import S3Config
from tiergate_server.config.stores import StorePlace, complaint_about_stores, parse_stores

MEBIBYTE = 1024 * 1024
# What a chunk message carries beside its data (file, offset, checksum, tags) stays far below this.
_MESSAGE_OVERHEAD_BYTES = 64 * 1024


def default_data_directory(environment: Mapping[str, str]) -> Path:
    data_home = environment.get("XDG_DATA_HOME", "")
    if Path(data_home).is_absolute():  # the XDG specification says to ignore a relative one
        return Path(data_home) / "tiergate"
    try:
        home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    except RuntimeError:
        raise ConfigError("data_directory is not set and there is no home directory to put it in: set it.") from None
    return home / ".local" / "share" / "tiergate"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLimits:
    concurrent_calls: int = setting(1000, kind=integer(), meaning="Calls served at the same time.")
    page_size: int = setting(1000, kind=integer(), meaning="Entries in one page of a list.")
    custom_metadata_bytes: int = setting(
        128, kind=integer(minimum=0), meaning="Size of the custom metadata of one segment."
    )
    message_bytes: int = setting(
        4 * MEBIBYTE, kind=integer(minimum=64 * 1024, maximum=2**31 - 1), meaning="Size of one message on the wire."
    )
    watch_history: int = setting(
        1000, kind=integer(), meaning="Changes of each metadata partition that a watcher can still ask for."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsLimits:
    concurrent_calls: int = setting(128, kind=integer(), meaning="Calls served at the same time.")
    uploads: int = setting(
        64, kind=integer(), meaning="Uploads in flight at the same time; one topic may have three quarters of them."
    )
    upload_index_bytes: int = setting(
        256 * MEBIBYTE,
        kind=integer(),
        meaning="Indexes of all uploads in flight together, which a store may hold in memory until they are finished.",
    )
    downloads: int = setting(96, kind=integer(), meaning="Downloads of logs in flight at the same time.")
    record_reads: int = setting(
        16, kind=integer(), meaning="Plans, reads and lookups of records at the same time; each takes some 20 MB."
    )
    plan_splits: int = setting(
        50_000, kind=integer(), meaning="Splits in one plan of a read of records, as estimated; each takes about 1 KB."
    )
    chunk_bytes: int = setting(
        2 * MEBIBYTE,
        kind=integer(minimum=MEBIBYTE, maximum=2 * MEBIBYTE),
        meaning="Data in one chunk of a stream; at least 1 MiB, since a whole block of a log has to fit.",
    )
    page_size: int = setting(1000, kind=integer(), meaning="Entries in one page of a list.")
    index_bytes: int = setting(64 * MEBIBYTE, kind=integer(), meaning="Size of one index file.")
    batch_indexes: int = setting(
        64,
        kind=integer(maximum=128),  # so many statuses fit into the smallest message
        meaning="Indexes that one call may ask for.",
    )
    message_bytes: int = setting(
        4 * MEBIBYTE,
        kind=integer(minimum=64 * 1024, maximum=2**31 - 1),
        meaning="Size of one message on the wire; at least `chunk_bytes` and 64 KiB.",
    )
    url_seconds: int = setting(
        900,
        kind=integer(maximum=7 * 24 * 3600),
        meaning="How long a URL is valid that clients read a segment with, straight from the store.",
    )

    def __post_init__(self) -> None:
        if self.message_bytes < self.chunk_bytes + _MESSAGE_OVERHEAD_BYTES:
            raise ConfigError(
                f"segments.limits.message_bytes = {self.message_bytes} cannot carry a chunk of "
                f"segments.limits.chunk_bytes = {self.chunk_bytes}: expected at least "
                f"{self.chunk_bytes + _MESSAGE_OVERHEAD_BYTES}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    topic: str = setting(
        "__remote_log_metadata",
        kind=text(expected="expected the name of a topic", pattern=r"[a-zA-Z0-9._-]{1,249}"),
        meaning="The topic that holds the metadata events, in Kafka's own format.",
    )
    partitions: int = setting(
        50, kind=integer(), meaning="Partitions of the topic when it is created; those of a topic that exists win."
    )
    replication: int = setting(
        3, kind=integer(maximum=2**15 - 1), meaning="Replication factor of the topic when it is created."
    )
    client_id: str = setting(
        "tiergate",
        kind=text(expected="expected a name", pattern=r"[a-zA-Z0-9._-]{1,200}"),
        meaning="What the brokers see as the name of these clients.",
    )
    client: Mapping[str, str] = table_setting(
        kind=table(),
        meaning="Settings of librdkafka for producer, consumer and admin alike, such as `security.protocol`.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    directory: str = setting(
        "default",
        kind=text(expected='expected an absolute directory, "default", or "" (no snapshots)', pattern=r"|default|/.+"),
        meaning="Where snapshots of the metadata are kept; `default` is `snapshots` in the data directory, empty is "
        "none.",
    )
    interval: float = setting(300.0, kind=seconds(), meaning="Seconds between two snapshots, if anything changed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataConfig:
    listen: str = setting(
        "127.0.0.1:7400", kind=address(), meaning="Where the metadata plane listens; port 0 means any free port."
    )
    advertise: str = setting(
        "",
        kind=address(if_empty="the same as metadata.listen", any_port=False),
        meaning="Where clients reach the metadata plane; empty means `metadata.listen`.",
    )
    metrics: str = setting(
        "127.0.0.1:7480",
        kind=address(if_empty="off"),
        meaning="Where the metadata plane serves `/metrics` for Prometheus; empty turns it off.",
    )
    log: str = setting(
        "embedded:",
        kind=metadata_log(),
        meaning="Where metadata events are kept: `embedded:` is `metadata.db` in the data directory, "
        "`embedded:/file` is that file, `kafka://host:port` is a topic there, `memory:` forgets everything when the "
        "plane stops.",
    )
    mode: str = setting(
        "own",
        kind=choice("own", "follow"),
        meaning="`follow` only reads the log, which belongs to brokers that keep their own metadata in it.",
    )
    assignment: str = setting(
        "",
        kind=text(
            expected="expected metadata partitions (0-9,12) and user partitions (topic id:number), or nothing for all",
            pattern=r"|(\d+(-\d+)?|[\w-]{22}:\d+)(,(\d+(-\d+)?|[\w-]{22}:\d+))*",
        ),
        meaning="What this replica hosts: metadata partitions such as `0-9,12`, or user partitions as "
        "`topic id:number`; empty is everything.",
    )
    skip: str = setting(
        "",
        kind=text(expected="expected partition:offset pairs such as 3:1500,4:20", pattern=r"|\d+:\d+(,\d+:\d+)*"),
        meaning="Records of the log that cannot be read and shall be passed over, as `partition:offset`.",
    )
    kafka: KafkaConfig = field(default_factory=KafkaConfig)
    snapshot: SnapshotConfig = field(default_factory=SnapshotConfig)
    limits: MetadataLimits = field(default_factory=MetadataLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsConfig:
    listen: str = setting(
        "127.0.0.1:7401", kind=address(), meaning="Where the segment plane listens; port 0 means any free port."
    )
    advertise: str = setting(
        "",
        kind=address(if_empty="the same as segments.listen", any_port=False),
        meaning="Where clients reach the segment plane (the metadata plane tells them); empty means `segments.listen`.",
    )
    metadata_target: str = setting(
        "",
        kind=text(
            expected="expected host:port or a gRPC target such as dns:///name:port", pattern=r"|[^\s]+:[0-9]{1,5}"
        ),
        meaning="Where the segment plane asks the metadata plane, which records need; empty means "
        "`metadata.advertise`, or else `metadata.listen`.",
    )
    metrics: str = setting(
        "127.0.0.1:7481",
        kind=address(if_empty="off"),
        meaning="Where the segment plane serves `/metrics` for Prometheus; empty turns it off.",
    )
    store: str | Mapping[str, str] = setting(
        "file:",
        kind=segments_store(),
        meaning="Where segments are kept: `file:` is `segments` in the data directory, "
        "`file:///directory` is that directory, `s3://bucket/prefix` is a bucket of S3, with the credentials that "
        "AWS's SDK finds (environment, profile, the machine's role). Several stores by name, such as "
        '`{hot = "file:///…", cold = "s3://…"}`: a segment is read from the store that took it, which is recorded with '
        "it by that name.",
    )
    default_store: str = setting(
        "",
        kind=text(expected="expected the name of a store", pattern=r"[a-z0-9_-]{0,32}"),
        meaning="Which of several stores takes new segments; empty is the only one there is.",
    )
    topic_stores: Mapping[str, str] = table_setting(
        kind=table(), meaning="Which store takes the new segments of a topic, where that is not `default_store`."
    )
    workers: int = setting(
        1,
        kind=integer(maximum=256),
        meaning="Processes that share the port, for machines with more cores. Limits count in each of them, quotas are "
        "divided over them.",
    )
    stall_seconds: float = setting(
        60.0, kind=seconds(), meaning="A call whose client neither sends nor reads for this long is ended."
    )
    cache_bytes: int = setting(
        64 * MEBIBYTE,
        kind=integer(minimum=0),
        meaning="Memory for manifests and indexes that were read before; 0 turns it off. An index of more than an "
        "eighth of it is read anew each time.",
    )
    s3: S3Config = field(default_factory=S3Config)
    limits: SegmentsLimits = field(default_factory=SegmentsLimits)
    quota: QuotaConfig = field(default_factory=QuotaConfig)

    def __post_init__(self) -> None:
        complaint = complaint_about_stores(self.store, default=self.default_store, of_topics=self.topic_stores)
        if complaint is not None:
            raise ConfigError(complaint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    data_directory: Path = field(
        default_factory=lambda: default_data_directory(os.environ),
        metadata={
            "kind": directory(),
            "meaning": "Where everything is kept that no other setting puts elsewhere.",
            "default": "$XDG_DATA_HOME/tiergate or ~/.local/share/tiergate",
        },
    )
    log_level: str = setting(
        "info", kind=choice("debug", "info", "warning", "error"), meaning="The least serious messages that are logged."
    )
    log_format: str = setting(
        "auto",
        kind=choice("auto", "human", "json"),
        meaning="How log lines look; auto is human on a terminal and JSON otherwise.",
    )
    drain_seconds: float = setting(
        30.0, kind=seconds(), meaning="How long calls in flight may take to finish once a plane is told to stop."
    )
    metadata: MetadataConfig = field(default_factory=MetadataConfig)
    segments: SegmentsConfig = field(default_factory=SegmentsConfig)

    @property
    def metadata_database(self) -> Path | None:
        """The file of the embedded log; None means that the log is in memory, or in Kafka."""
        if not self.metadata.log.startswith("embedded:"):
            return None
        return Path(self.metadata.log.removeprefix("embedded:") or self.data_directory / "metadata.db")

    @property
    def metadata_backend(self) -> str:
        """`metadata.log` written out, such as "embedded:/var/lib/tiergate/metadata.db"."""
        database = self.metadata_database
        return self.metadata.log if database is None else f"embedded:{database}"

    @property
    def snapshot_directory(self) -> Path | None:
        configured = self.metadata.snapshot.directory
        if configured == "default":
            return self.data_directory / "snapshots"
        return Path(configured) if configured else None

    @property
    def stores(self) -> Mapping[str, StorePlace]:
        """The stores of segments by name."""
        return parse_stores(self.segments.store, data_directory=self.data_directory)

    @property
    def default_store(self) -> StorePlace:
        stores = self.stores
        return stores[self.segments.default_store or next(iter(stores))]

    @property
    def segments_backend(self) -> str:
        """`segments.store` written out, such as "file:///var/lib/tiergate/segments"."""
        stores = self.stores
        if isinstance(self.segments.store, str):
            return self.default_store.uri
        return ", ".join(f"{name}={place.uri}" for name, place in stores.items())


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the tree: what the loader, the reference and `tiergate config` need to know of it."""

    key: str
    kind: Kind
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        return "TIERGATE_" + self.key.replace(".", "_").upper()


def settings(section: type = Config, *, prefix: str = "") -> Iterator[Setting]:
    """Every setting in the order of the schema, those of a section's own before those of its subsections."""
    for leaf in fields(section):
        if "kind" in leaf.metadata:
            yield Setting(prefix + leaf.name, leaf.metadata["kind"], _default_text(leaf), leaf.metadata["meaning"])
    for name, subsection in subsections(section):
        yield from settings(subsection, prefix=f"{prefix}{name}.")


def subsections(section: type) -> Iterator[tuple[str, type]]:
    for branch in fields(section):
        if "kind" not in branch.metadata and isinstance(branch.default_factory, type):
            yield branch.name, branch.default_factory


def _default_text(leaf: Field[Any]) -> str:
    return str(leaf.metadata.get("default", leaf.default))
