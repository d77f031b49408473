"""Where segments are kept: the stores that `segments.store` names, written out. Opening them is not done here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

SOLE_STORE = "default"
"""The name of a store that is configured without one."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A directory, or else a bucket of S3 and a prefix in it."""

    name: str
    directory: Path | None = None
    bucket: str = ""
    prefix: str = ""

    @classmethod
    def parse(cls, name: str, uri: str, *, data_directory: Path) -> StorePlace:
        """`uri` is what the setting's kind accepts."""
        if uri.startswith("s3://"):
            bucket, _, prefix = uri.removeprefix("s3://").partition("/")
            return cls(name, bucket=bucket, prefix=prefix)
        if uri == "file:":
            return cls(name, data_directory / "segments")
        return cls(name, Path(unquote(uri.removeprefix("file://"))))

    @property
    def uri(self) -> str:
        """Such as "file:///var/lib/tiergate/segments"."""
        if self.directory is not None:
            return self.directory.as_uri()
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_stores(configured: str | Mapping[str, str], *, data_directory: Path) -> dict[str, StorePlace]:
    """By name."""
    uris = {SOLE_STORE: configured} if isinstance(configured, str) else configured
    return {name: StorePlace.parse(name, uri, data_directory=data_directory) for name, uri in uris.items()}


def complaint_about_stores(
    configured: str | Mapping[str, str], *, default: str, of_topics: Mapping[str, str]
) -> str | None:
    """What is wrong with the choice of stores, as a sentence; None: nothing."""
    names = [SOLE_STORE] if isinstance(configured, str) else list(configured)
    known = f"none of the stores in segments.store: expected one of {', '.join(names)}"
    if default and default not in names:
        return f"segments.default_store = {default} is {known}."
    if not default and len(names) > 1:
        return f"segments.store names {', '.join(names)}: say in segments.default_store which one takes new segments."
    for topic, name in of_topics.items():
        if name not in names:
            return f"segments.topic_stores.{topic} = {name} is {known}."
    return None
