"""Opens the stores of segments as they are configured. The domain knows them by their seam; here their kinds are known.

What lies in them is not looked at.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path

from tiergate_client.errors import BackendThrottled, StorageUnavailable
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.config import Config, ConfigError
from tiergate_server.config.stores import StorePlace
from tiergate_server.segments.object_store import ObjectStore, StoreRefused

_logger = logging.getLogger(__name__)

# Of one upload: the log and an index, each of which may be held up by its client.
_FILES_ON_THEIR_WAY = 2


def open_object_stores(config: Config, *, threads: int) -> dict[str, ObjectStore]:
    """Every store by name, for a plane that uses them from so many threads. Raises ConfigError."""
    with ExitStack() as opened:
        stores = {}
        for name, place in config.stores.items():
            stores[name] = open_object_store(config, place, threads=threads)
            opened.callback(stores[name].close)
        opened.pop_all()
        return stores


def open_object_store(config: Config, place: StorePlace, *, threads: int, check: bool = True) -> ObjectStore:
    """Raises ConfigError when the store never will work. Without `check` a bucket is not asked for anything yet."""
    if place.directory is not None:
        return open_directory(place.directory, setting="segments.store")
    return _open_s3_store(config, place, threads=threads, check=check)


def open_existing_store(config: Config, place: StorePlace, *, threads: int) -> ObjectStore | None:
    """Makes and asks nothing yet. None: the directory is not there. Raises StorageUnavailable."""
    if place.directory is not None and not place.directory.is_dir():
        return None
    try:
        return open_object_store(config, place, threads=threads, check=False)
    except ConfigError as complaint:
        raise StorageUnavailable(str(complaint)) from complaint


def open_directory(directory: Path, *, setting: str) -> ObjectStore:
    """Raises ConfigError."""
    try:
        return FilesystemStore(directory)
    except StorageUnavailable as trouble:
        raise ConfigError(f"{setting} = {directory} cannot be used: {trouble.message}") from trouble


def _open_s3_store(config: Config, place: StorePlace, *, threads: int, check: bool) -> ObjectStore:
    # Imported here: only who keeps segments in S3 pays for its SDK.
    from tiergate_server.adapters.s3_probe import WHAT_IS_LOST  # noqa: PLC0415
    from tiergate_server.adapters.s3_settings import S3Settings  # noqa: PLC0415
    from tiergate_server.adapters.s3_store import S3Store  # noqa: PLC0415

    s3 = config.segments.s3
    senders = config.segments.limits.uploads * _FILES_ON_THEIR_WAY
    settings = S3Settings(
        bucket=place.bucket,
        prefix=place.prefix,
        endpoint_url=s3.endpoint_url or None,
        public_endpoint_url=s3.public_endpoint_url or None,
        region=s3.region or None,
        path_style=s3.is_path_style,
        part_bytes=s3.part_bytes,
        multipart_threshold_bytes=s3.multipart_threshold_bytes,
        conditional_writes=s3.conditional_writes == "required",
        sse=s3.sse,
        sse_kms_key_id=s3.sse_kms_key_id,
        storage_class=s3.storage_class,
        tags=s3.tags,
        connections=threads + senders,
        senders=senders,
    )
    if not settings.conditional_writes:
        _logger.warning(
            'segments.s3.conditional_writes = "unsafe": %s may ignore If-None-Match, and %s',
            settings.place,
            WHAT_IS_LOST,
        )
    try:
        store = S3Store(settings)
        if check:
            store.check()
    except StoreRefused as refusal:
        raise ConfigError(f"segments.store: {refusal}.") from refusal
    except (StorageUnavailable, BackendThrottled) as trouble:
        _logger.warning("%s (the plane serves, and looks again before its first write)", trouble.message)
    return store
