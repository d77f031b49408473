"""What an export is of, kept beside it: a later run must not mix other records or another shape into it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Final

from tiergate_client.exit_codes import ExitCode
from tiergate_spark.options import Isolation
from tiergate_spark.pipelines.failures import PipelineFailed

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """All that must be the same in every run of one export."""

    topic: str
    topic_id: str
    format: str
    partition_by: tuple[str, ...]
    isolation: Isolation
    include_headers: bool
    from_offset: int | None
    from_time_ms: int | None

    def to_json(self) -> bytes:
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=2).encode("utf-8")

    @classmethod
    def from_json(cls, content: bytes, *, place: str) -> ExportSettings:
        try:
            stored = json.loads(content)
            version = stored.pop("version")
        except (ValueError, KeyError, AttributeError) as error:
            raise PipelineFailed(
                f"the settings of the export in {place} cannot be read ({error}); if it was never finished, remove "
                f"{place}/_tiergate/export.json, and run it again as it was begun"
            ) from error
        if version != _VERSION:
            raise PipelineFailed(
                f"the export in {place} is of version {version}, this release knows {_VERSION}; use a newer release"
            )
        return cls(**{**stored, "partition_by": tuple(stored["partition_by"])})

    def require_same(self, wanted: ExportSettings, *, place: str, has_ranges: bool) -> None:
        way_out = "name another directory"
        if not has_ranges:
            way_out = f"remove {place}/_tiergate/export.json if no other export runs: it holds no records yet"
        for one in fields(self):
            stored, asked = getattr(self, one.name), getattr(wanted, one.name)
            if stored != asked:
                name = one.name.replace("_", " ")
                raise PipelineFailed(
                    f"the export in {place} was begun with {name} {_text(stored)}, not {_text(asked)}; "
                    f"ask for the same, or {way_out}",
                    exit_code=ExitCode.REFUSED,
                )


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case tuple():
            return ",".join(map(str, value)) or "none"
        case _:
            return str(value)
