from __future__ import annotations

import time
from contextvars import copy_context

import pytest

from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_retries import comes_true, with_retries
from tiergate_server.segments.call_deadline import call_deadline, remaining_s

PASSING = S3Failure("InternalError", 500, "", "GetObject")
LASTING = S3Failure("AccessDenied", 403, "", "GetObject")


class Attempts:
    def __init__(self, *failures: S3Failure) -> None:
        self.count = 0
        self._failures = failures

    def __call__(self) -> str:
        self.count += 1
        if self.count <= len(self._failures):
            raise self._failures[self.count - 1]
        return "answer"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have waited; nobody has to."""
    waited: list[float] = []
    monkeypatch.setattr("tiergate_server.adapters.s3_retries.time.sleep", waited.append)
    return waited


def test_failure_in_passing_is_tried_again_after_growing_waits(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiergate_server.adapters.s3_retries.random.uniform", lambda _, most: most)
    assert with_retries(Attempts(PASSING, PASSING, PASSING), max_attempts=4) == "answer"
    assert waits == [0.1, 0.2, 0.4]


def test_last_failure_is_raised_when_no_attempt_is_left() -> None:
    attempts = Attempts(*[PASSING] * 5)
    with pytest.raises(S3Failure):
        with_retries(attempts, max_attempts=3)
    assert attempts.count == 3


def test_failure_that_stays_is_raised_at_once(waits: list[float]) -> None:
    attempts = Attempts(LASTING)
    with pytest.raises(S3Failure):
        with_retries(attempts, max_attempts=3)
    assert (attempts.count, waits) == (1, [])


def test_no_wait_begins_that_the_deadline_would_cut_off(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiergate_server.adapters.s3_retries.random.uniform", lambda _, most: most)
    attempts = Attempts(PASSING)
    with call_deadline(0.05), pytest.raises(S3Failure):
        with_retries(attempts, max_attempts=3)
    assert (attempts.count, waits) == (1, [])


def test_no_attempt_begins_when_getting_ready_for_it_took_until_the_deadline() -> None:
    attempts = Attempts(PASSING)
    now = time.monotonic()
    with call_deadline(10), pytest.MonkeyPatch.context() as patch:
        later = lambda: patch.setattr("tiergate_server.segments.call_deadline.time.monotonic", lambda: now + 11)  # noqa: E731
        with pytest.raises(S3Failure):
            with_retries(attempts, max_attempts=3, before_repeat=later)
    assert attempts.count == 1


def test_getting_ready_comes_before_every_attempt_but_the_first() -> None:
    ready: list[int] = []
    attempts = Attempts(PASSING, PASSING)
    with_retries(attempts, max_attempts=4, before_repeat=lambda: ready.append(attempts.count))
    assert ready == [1, 2]


def test_claim_is_looked_at_again_after_growing_waits(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiergate_server.adapters.s3_retries.random.uniform", lambda _, most: most)
    looks = iter([False, False, False, True])
    assert comes_true(lambda: next(looks), max_looks=5)
    assert waits == [0.1, 0.2, 0.4]


def test_claim_that_does_not_come_true_is_given_up_after_the_last_look(waits: list[float]) -> None:
    assert not comes_true(lambda: False, max_looks=3)
    assert len(waits) == 2


def test_claim_is_given_up_when_the_deadline_would_cut_off_the_wait(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiergate_server.adapters.s3_retries.random.uniform", lambda _, most: most)
    with call_deadline(0.05):
        assert not comes_true(lambda: False, max_looks=3)
        assert comes_true(lambda: True, max_looks=3)
    assert waits == []


@pytest.mark.parametrize(
    ("code", "status", "is_passing"),
    [
        ("SlowDown", 503, True),
        ("RequestTimeout", 400, True),
        ("RequestLimitExceeded", 400, True),
        ("502", 502, True),
        ("ReadTimeoutError", 0, True),
        ("ConnectionClosedError", 0, True),
        ("NoCredentials", 0, False),
        ("InvalidBucketName", 0, False),
        ("AccessDenied", 403, False),
        ("NoSuchBucket", 404, False),
        ("NoSuchUpload", 404, False),
        ("PreconditionFailed", 412, False),
        ("ConditionalRequestConflict", 409, False),
    ],
)
def test_failures_that_may_pass_are_told_from_those_that_stay(code: str, status: int, *, is_passing: bool) -> None:
    assert S3Failure(code, status, "", "GetObject").is_passing is is_passing


def test_deadline_holds_inside_its_block_and_where_its_context_is_carried() -> None:
    assert remaining_s() is None
    with call_deadline(100):
        assert 99 < (remaining_s() or 0) <= 100
        carried = copy_context()
        with call_deadline(None):
            assert remaining_s() is None
    assert remaining_s() is None
    assert 99 < (carried.run(remaining_s) or 0) <= 100
    with call_deadline(-1):
        assert remaining_s() == 0


def test_deadline_of_a_stream_that_another_context_closes_is_no_error() -> None:
    deadline = call_deadline(100)
    copy_context().run(deadline.__enter__)
    deadline.__exit__(None, None, None)
    assert remaining_s() is None
