"""A store of ours behind the proxy, watched for what it leaves open. What goes wrong there is the test's business."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from support.s3_proxy import Rule, S3Proxy, s3_proxy
from support.waiting import wait_until
from tiergate_server.adapters.s3_settings import S3Settings
from tiergate_server.adapters.s3_store import S3Store


@contextmanager
def store_behind(settings: S3Settings, rule: Rule) -> Iterator[tuple[S3Store, S3Proxy]]:
    """A store whose requests pass a proxy; when it is closed, neither threads nor connections are left."""
    assert settings.endpoint_url is not None
    with s3_proxy(settings.endpoint_url, rule) as proxy:
        threads, files = set(threading.enumerate()), open_files()
        with closing(S3Store(replace(settings, endpoint_url=proxy.endpoint_url))) as store:
            yield store, proxy
        proxy.stopped.set()
        wait_until(lambda: set(threading.enumerate()) <= threads and open_files() <= files)


def open_files() -> int:
    gc.collect()  # the traceback of a failed attempt holds the SDK's connections until then
    return len(list(Path("/proc/self/fd").iterdir()))
