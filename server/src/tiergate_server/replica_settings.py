"""What the configuration tells a replica of the metadata plane: its settings, and the stores that it binds to its log.

When snapshots are taken and markers are written is the domain's affair.
"""

from __future__ import annotations

from functools import partial

from tiergate_server.config import Config
from tiergate_server.metadata.assignment import parse_assignment, parse_skip
from tiergate_server.metadata.replica_life import ReplicaSettings
from tiergate_server.metadata.snapshot_store import SnapshotStore
from tiergate_server.metadata.store_binding import OpenStore
from tiergate_server.object_stores import open_directory, open_existing_store, open_object_store

# Snapshots are saved and read one at a time.
_SNAPSHOT_THREADS = 2
# Markers are looked at one after the other.
_MARKER_THREADS = 1


def replica_settings(config: Config) -> ReplicaSettings:
    """Raises ConfigError when a store of snapshots never will work."""
    settings = config.metadata
    directory = config.snapshot_directory
    # Beside the segments, if those are not on this machine either: so a new pod on an empty disk has one.
    is_mirrored = directory is not None and config.default_store.directory is None
    return ReplicaSettings(
        custom_metadata_bytes=settings.limits.custom_metadata_bytes,
        history_events=settings.limits.watch_history,
        only_follows=settings.mode == "follow",
        assignment=parse_assignment(settings.assignment) if settings.assignment else None,
        skip=parse_skip(settings.skip),
        snapshots=None
        if directory is None
        else SnapshotStore(open_directory(directory, setting="metadata.snapshot.directory"), prefix=""),
        snapshot_mirror=SnapshotStore(
            open_object_store(config, config.default_store, threads=_SNAPSHOT_THREADS, check=False)
        )
        if is_mirrored
        else None,
        snapshots_place=f"{directory}/",
        snapshot_interval_s=settings.snapshot.interval,
    )


def stores_to_bind(config: Config) -> dict[str, OpenStore]:
    """None where the log is not this service's own, or is forgotten when the plane stops."""
    if config.metadata.mode != "own" or config.metadata.log == "memory:":
        return {}
    return {
        name: partial(open_existing_store, config, place, threads=_MARKER_THREADS)
        for name, place in config.stores.items()
    }
