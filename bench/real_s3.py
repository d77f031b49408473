"""The real S3 server beside which reads and writes of buckets are measured: that of the tests, with a bucket in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.s3_server import Bucket, running_s3_server, s3_environment


@contextmanager
def bucket_in(directory: Path) -> Iterator[Bucket]:
    """A new one, with credentials in the environment of this process and of those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        with running_s3_server(directory) as server:
            yield server.new_bucket()


def plane_settings(bucket: Bucket) -> dict[str, str]:
    return {key.replace("__", "."): value for key, value in bucket.plane_settings().items()}
