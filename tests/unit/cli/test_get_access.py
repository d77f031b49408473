from __future__ import annotations

from contextlib import nullcontext

import pytest

from support.in_process_tiergate import InProcessTiergate
from tiergate_client import SegmentId
from tiergate_server.cli.application import run
from tiergate_server.cli.session import Session


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], "service"), (["--access", "direct"], "direct"), (["--access", "auto"], "auto")],
)
def test_get_connects_with_the_access_that_was_asked_for(
    tiergate: InProcessTiergate, arguments: list[str], expected: str
) -> None:
    seen: list[str] = []

    def connector(session: Session) -> nullcontext[InProcessTiergate]:
        seen.append(session.access)
        return nullcontext(tiergate)

    run(["get", str(SegmentId.random()), "-o", "unused", *arguments], connector=connector)
    assert seen == [expected]


def test_get_refuses_an_access_that_there_is_not(tiergate: InProcessTiergate) -> None:
    arguments = ["get", str(SegmentId.random()), "-o", "unused", "--access", "sideways"]
    assert run(arguments, connector=lambda _: nullcontext(tiergate)) == 2
