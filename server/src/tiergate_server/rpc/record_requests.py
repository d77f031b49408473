"""What the requests of the record service ask for, checked field by field. Topics are looked up elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tiergate.v1 import records_pb2 as pb
from tiergate_client.errors import InvalidField
from tiergate_client.integers import require_int64

_ISOLATION_NAMES: Final[dict[int, str]] = {
    pb.ISOLATION_LEVEL_READ_UNCOMMITTED: "read_uncommitted",
    pb.ISOLATION_LEVEL_READ_COMMITTED: "read_committed",
}
_COLUMN_NAMES: Final[dict[int, str]] = {
    pb.RECORD_COLUMN_KEY: "key",
    pb.RECORD_COLUMN_VALUE: "value",
    pb.RECORD_COLUMN_HEADERS: "headers",
}
_FORMATS: Final = (pb.RECORD_FORMAT_RECORDS, pb.RECORD_FORMAT_RAW_BATCHES)
_DECIDED_BY_A_PLAN: Final = (
    "start_time_ms",
    "stop_offset",
    "stop_time_ms",
    "isolation",
    "log_start_offset",
)


@dataclass(frozen=True, slots=True)
class AskedBounds:
    """Which records of a partition; None is as far as there are any."""

    start_offset: int | None
    start_time_ms: int | None
    stop_offset: int | None
    stop_time_ms: int | None
    log_start_offset: int | None
    isolation: str
    skips_missing: bool


@dataclass(frozen=True, slots=True)
class ReadForm:
    """In which form records are sent, and how many."""

    is_raw: bool
    columns: tuple[str, ...]
    max_records: int | None
    max_bytes: int | None


def bounds_of(request: pb.PlanReadRequest | pb.ReadRecordsRequest) -> AskedBounds:
    start = request.WhichOneof("start")
    stop = request.WhichOneof("stop")
    bounds = AskedBounds(
        start_offset=_natural("start_offset", request.start_offset) if start == "start_offset" else None,
        start_time_ms=_natural("start_time_ms", request.start_time_ms) if start == "start_time_ms" else None,
        stop_offset=_natural("stop_offset", request.stop_offset) if stop == "stop_offset" else None,
        stop_time_ms=_natural("stop_time_ms", request.stop_time_ms) if stop == "stop_time_ms" else None,
        log_start_offset=log_start_of(request),
        isolation=isolation_of(request),
        skips_missing=request.skip_missing,
    )
    if bounds.start_offset is not None and bounds.stop_offset is not None and bounds.stop_offset < bounds.start_offset:
        raise InvalidField.of("stop_offset", f"{bounds.stop_offset} is below the start, {bounds.start_offset}")
    return bounds


def form_of(request: pb.ReadRecordsRequest) -> ReadForm:
    read_format = request.format if request.HasField("format") else pb.RECORD_FORMAT_RECORDS
    if read_format not in _FORMATS:
        raise InvalidField.of("format", f"{read_format} is no format of records")
    return ReadForm(
        is_raw=read_format == pb.RECORD_FORMAT_RAW_BATCHES,
        columns=_columns(request),
        max_records=_positive("max_records", request.max_records) if request.HasField("max_records") else None,
        max_bytes=_positive("max_bytes", request.max_bytes) if request.HasField("max_bytes") else None,
    )


def split_bytes_of(request: pb.PlanReadRequest) -> int | None:
    return _positive("split_bytes", request.split_bytes) if request.HasField("split_bytes") else None


def split_records_of(request: pb.PlanReadRequest) -> int | None:
    return _positive("split_records", request.split_records) if request.HasField("split_records") else None


def timestamp_of(request: pb.FindOffsetByTimeRequest) -> int:
    return _natural("timestamp_ms", request.timestamp_ms)


def isolation_of(request: pb.PlanReadRequest | pb.ReadRecordsRequest | pb.FindOffsetByTimeRequest) -> str:
    level = request.isolation if request.HasField("isolation") else pb.ISOLATION_LEVEL_READ_UNCOMMITTED
    if level not in _ISOLATION_NAMES:
        raise InvalidField.of("isolation", f"{level} is no isolation level")
    return _ISOLATION_NAMES[level]


def log_start_of(request: pb.PlanReadRequest | pb.ReadRecordsRequest | pb.FindOffsetByTimeRequest) -> int | None:
    return _natural("log_start_offset", request.log_start_offset) if request.HasField("log_start_offset") else None


def require_only_what_goes_with_a_split(request: pb.ReadRecordsRequest) -> None:
    for field in _DECIDED_BY_A_PLAN:
        if request.HasField(field):
            raise InvalidField.of(field, "the plan of the split has decided it: leave it out, or plan again")
    if request.skip_missing:
        raise InvalidField.of("skip_missing", "the plan of the split has decided it: leave it out, or plan again")


def _columns(request: pb.ReadRecordsRequest) -> tuple[str, ...]:
    names = [_COLUMN_NAMES.get(column, "") for column in request.columns]
    if "" in names:
        raise InvalidField.of("columns", f"{request.columns[names.index('')]} is no column of records")
    if len(set(names)) != len(names):
        raise InvalidField.of("columns", "a column is named twice")
    return tuple(names) or tuple(_COLUMN_NAMES.values())


def _natural(field: str, value: int) -> int:
    require_int64(field, value, minimum=0)
    return value


def _positive(field: str, value: int) -> int:
    require_int64(field, value, minimum=1)
    return value
