"""The settings of the segment plane's quotas: bytes per second in each direction, in total and for each topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiergate_server.config.fields import setting, table_setting
from tiergate_server.config.kinds import integer, rates, seconds


def _rate(meaning: str) -> int:
    return setting(0, kind=integer(minimum=0), meaning=f"{meaning}; 0 is no limit.")


def _overrides(rate: str) -> Mapping[str, int]:
    return table_setting(
        kind=rates(), meaning=f"Topics by name, each with a rate of its own in place of `{rate}`; 0 is no limit."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    copy_bytes_per_second: int = _rate("Bytes that all uploads together may send in a second")
    fetch_bytes_per_second: int = _rate("Bytes of logs and indexes that all clients together may get in a second")
    topic_copy_bytes_per_second: int = _rate("The same for the uploads of each topic")
    topic_fetch_bytes_per_second: int = _rate("The same for the logs and indexes of each topic")
    topic_copy_overrides: Mapping[str, int] = _overrides("topic_copy_bytes_per_second")
    topic_fetch_overrides: Mapping[str, int] = _overrides("topic_fetch_bytes_per_second")
    fetch_wait_seconds: float = setting(
        1.0, kind=seconds(), meaning="How long a download that is over a quota waits before it is told to come again."
    )
