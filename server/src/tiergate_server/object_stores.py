"""Opens the store of segments as it is configured. The domain knows it by its seam; here its kinds are known.

What lies in it is not looked at.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tiergate_client.errors import BackendThrottled, StorageUnavailable
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.config import Config, ConfigError
from tiergate_server.segments.object_store import ObjectStore, StoreRefused

_logger = logging.getLogger(__name__)


def open_object_store(config: Config, *, threads: int, check: bool = True) -> ObjectStore:
    """The store for a plane that uses it from so many threads. Raises ConfigError when it never will work.

    Without `check` a bucket is not asked for anything yet.
    """
    directory = config.segments_directory
    if directory is not None:
        return open_directory(directory, setting="segments.store")
    return _open_s3_store(config, threads=threads, check=check)


def open_directory(directory: Path, *, setting: str) -> ObjectStore:
    """Raises ConfigError."""
    try:
        return FilesystemStore(directory)
    except StorageUnavailable as trouble:
        raise ConfigError(f"{setting} = {directory} cannot be used: {trouble.message}") from trouble


def _open_s3_store(config: Config, *, threads: int, check: bool) -> ObjectStore:
    # Imported here: only who keeps segments in S3 pays for its SDK.
    from tiergate_server.adapters.s3_settings import S3Settings  # noqa: PLC0415
    from tiergate_server.adapters.s3_store import S3Store  # noqa: PLC0415

    s3 = config.segments.s3
    bucket, _, prefix = config.segments.store.removeprefix("s3://").partition("/")
    senders = config.segments.limits.uploads
    settings = S3Settings(
        bucket=bucket,
        prefix=prefix,
        endpoint_url=s3.endpoint_url or None,
        region=s3.region or None,
        path_style=s3.is_path_style,
        part_bytes=s3.part_bytes,
        multipart_threshold_bytes=s3.multipart_threshold_bytes,
        connections=threads + senders,
        senders=senders,
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
