"""Fixtures that every kind of test shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.kafka_broker import KafkaBroker, running_broker
from support.planes import Planes, running_planes
from support.s3_server import Bucket, S3Server, S3ServerMissing, running_s3_server, s3_environment, s3_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.record_corpus import RecordCorpus

# A shell that runs the tests in its background has them ignore Ctrl-C, and so would the processes that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_TESTS = Path(__file__).parent

# How long an example takes on a busy machine says nothing.
settings.register_profile("default", deadline=None)
settings.load_profile(settings.get_current_profile_name())
# Chosen by `make nightly`. Tests that set their own number of examples keep it.
settings.register_profile("nightly", max_examples=5000, deadline=None)


_KINDS = ("integration", "contract", "packaging", "fuzz", "unit")
_SHARED_FIXTURES = {"corpus", "spark"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For processes that share the tests: what takes long comes first, and what is dear to make is made once.

    So a module goes to one of the processes, and with the topics of the corpus or with Spark all that need them.
    """
    for item in items:
        is_dear = not _SHARED_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group("shared" if is_dear else item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: _KINDS.index(item.path.relative_to(_TESTS).parts[0]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the S3 server before the clock of a test runs: the first time takes minutes."""
    if getattr(session.config.option, "loadgroup", False) and session.items and "@" not in session.items[0].nodeid:
        raise pytest.UsageError("this pytest-xdist can not tell this pytest what belongs together: pin another pytest")
    is_needed = any("s3" in getattr(item, "fixturenames", ()) for item in session.items)
    if is_needed and not session.config.option.collectonly:
        with suppress(S3ServerMissing):  # said by the tests that need it
            s3_program()


@pytest.fixture(scope="session")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    """Both planes on the embedded default, for tests that leave them running."""
    with running_planes(tmp_path_factory.mktemp("planes")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker for tests that leave it running and use topics of their own."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server for tests that leave it running and use buckets of their own."""
    with running_s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def corpus(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordCorpus]:
    """Topics that a broker and the tier both hold, for tests that only read them."""
    from support.kafka_jars import KafkaJarsMissing  # noqa: PLC0415
    from support.record_corpus import running_corpus  # noqa: PLC0415 - most tests do without

    try:
        with pytest.MonkeyPatch.context() as patch:
            s3_environment(patch)
            with running_corpus(tmp_path_factory.mktemp("corpus"), s3.new_bucket()) as running:
                yield running
    except KafkaJarsMissing as missing:
        pytest.fail(str(missing))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Spark on two threads, for tests that leave its settings as they are; one at a time, so one for each module."""
    from support.spark import running_spark  # noqa: PLC0415 - most tests do without
    from support.spark_jars import SparkJarsMissing  # noqa: PLC0415

    try:
        with running_spark() as session:
            yield session
    except SparkJarsMissing as missing:
        pytest.fail(str(missing))


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty one, with credentials in the environment for this test and for planes that it starts."""
    s3_environment(monkeypatch)
    return s3.new_bucket()
