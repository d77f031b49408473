"""A URL that grants access is never in a log, nor in the text of an error, on either side and whatever goes wrong."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from support.past_the_service import MIB, passable_service
from support.s3_server import Bucket
from support.scripted_s3 import scripted_s3
from support.segments import read_back
from tiergate_client import SegmentFile, TiergateError, connect

_SIGNATURE = re.compile(r"X-Amz-Signature=([0-9a-f]{64})")


def told(action: Callable[[], object]) -> str:
    """All that a failure says, with what led to it."""
    with pytest.raises(TiergateError) as caught:
        action()
    error = caught.value
    return f"{error} {error!r} {error.details} {''.join(traceback.format_exception(error))}"


def clients_log(caplog: pytest.LogCaptureFixture) -> str:
    """Without what the SDK says, with which the tests change objects: the client has none."""
    sdk = ("boto3", "botocore", "s3transfer", "urllib3")
    return "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith(sdk))


@pytest.mark.parametrize(("status", "code"), [(403, "SignatureDoesNotMatch"), (503, "SlowDown"), (0, "")])
def test_no_url_is_logged_or_told(
    tmp_path: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture, status: int, code: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        scripted_s3(status or 500, code) as script,
        passable_service(
            tmp_path, bucket, public_endpoint_url=script.endpoint_url if status else "", log_level="debug"
        ) as service,
    ):
        segment = service.stored(log_bytes=2 * MIB)
        texts = []
        with (
            connect(service.planes.target, access="direct", timeout_s=1) as direct,
            connect(service.planes.target, access="auto", timeout_s=5) as auto,
        ):
            resolved = direct.storage.resolve_segment(segment.metadata)
            texts.append(f"{resolved} {resolved!r}")
            if not status:
                assert read_back(direct.storage, segment.metadata) == segment.data
                segment.change(SegmentFile.LOG, bytearray.reverse)
                texts.append(told(lambda: direct.storage.fetch_segment(segment.metadata)))
                segment.change(SegmentFile.LOG, bytearray.reverse)
                service.proxy.stop()
            texts.append(told(lambda: direct.storage.fetch_segment(segment.metadata)))
            texts.append(told(lambda: direct.storage.fetch_index(segment.metadata, SegmentFile.TIME_INDEX)))
            assert read_back(auto.storage, segment.metadata) == segment.data
        logged = clients_log(caplog)
        assert "reading through the service" in logged
        logs = [plane.log_file.read_text() for plane in (service.planes.segments, service.planes.metadata)]
        (signature,) = _SIGNATURE.findall(resolved.urls[SegmentFile.LOG])
        for text in (*texts, *logs, logged):
            assert text
            assert signature not in text
            assert "X-Amz-" not in text
