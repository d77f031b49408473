"""A record as one line: JSON for programs, readable text for people. Where records come from is not decided here."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta

from tiergate_client.record_values import Record

_CUT = "…"
_EPOCH = datetime.fromtimestamp(0, UTC)


def json_line(partition: int, record: Record) -> str:
    return json.dumps(
        {
            "partition": partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "timestamp_type": record.timestamp_type.value,
            "key": _base64(record.key),
            "value": _base64(record.value),
            "headers": [{"key": header.key, "value": _base64(header.value)} for header in record.headers],
        }
    )


def text_line(partition: int, record: Record, *, width: int | None) -> str:
    """Cut to the width of a terminal; None is a pipe, into which nothing is cut."""
    words = [f"{partition}:{record.offset}", _moment(record.timestamp_ms), _shown(record.key), _shown(record.value)]
    words += [f"{_printable(header.key)}={_shown(header.value)}" for header in record.headers]
    line = "  ".join(words)
    return line if width is None or len(line) <= width else line[: width - 1] + _CUT


def _base64(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _shown(content: bytes | None) -> str:
    """As text where that is printable, else in base64."""
    if content is None:
        return "(null)"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"base64:{_base64(content)}"
    return text if text.isprintable() else f"base64:{_base64(content)}"


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _moment(timestamp_ms: int) -> str:
    """UTC, to the millisecond. Times beyond the calendar, which records may carry, stay numbers."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"
