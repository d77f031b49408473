from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tiergate_spark.pipelines.kept_frame import kept_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StandInFrame:
    """Knows of itself only whether it is kept."""

    is_kept = False

    def persist(self) -> StandInFrame:
        self.is_kept = True
        return self

    def unpersist(self) -> None:
        self.is_kept = False


def test_frame_is_kept_behind_a_body_that_ends_well() -> None:
    frame = StandInFrame()
    with kept_frame(cast("DataFrame", frame)) as kept:
        assert kept is cast("DataFrame", frame)
    assert frame.is_kept


@pytest.mark.parametrize("failure", [RuntimeError("the job failed"), KeyboardInterrupt()])
def test_frame_is_let_go_when_the_body_fails(failure: BaseException) -> None:
    frame = StandInFrame()
    with pytest.raises(type(failure)) as raised, kept_frame(cast("DataFrame", frame)):
        raise failure
    assert raised.value is failure
    assert not frame.is_kept
