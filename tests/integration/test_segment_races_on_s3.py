"""Copies, deletes and aborts of one segment that meet in a bucket: a sample of the orders of their operations.

All orders are gone through in directories, by the unit tests.
"""

from __future__ import annotations

import random
from contextlib import closing, nullcontext
from itertools import count

import pytest

from support.interleavings import one_run
from support.s3_server import Bucket
from support.segment_races import RACES, RACES_OF_THREE, Race, Replicas
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES
from tiergate_server.adapters.s3_store import S3Store

IN_PARTS = RACES | RACES_OF_THREE
AT_ONCE = {name: RACES[name] for name in ("same_content", "delete")}
ORDERS = 3


def check_some_orders(bucket: Bucket, race: Race, *, threshold_bytes: int) -> None:
    with closing(S3Store(bucket.settings(multipart_threshold_bytes=threshold_bytes))) as store:
        for seed in range(ORDERS):
            world = Replicas(race, lambda: nullcontext(store))
            chance = random.Random(seed)
            stretches = (number for number in count(seed) for _ in range(chance.randint(1, 6)))
            world.require_good_end(one_run(world, stretches))
            store.delete_many(stored.key for stored in store.list(""))
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize("race", IN_PARTS.values(), ids=IN_PARTS)
def test_segment_is_whole_or_clearly_refused_when_replicas_meet_in_a_bucket(bucket: Bucket, race: Race) -> None:
    check_some_orders(bucket, race, threshold_bytes=0)


@pytest.mark.parametrize("race", AT_ONCE.values(), ids=AT_ONCE)
def test_small_segment_is_whole_or_clearly_refused_when_replicas_meet_in_a_bucket(bucket: Bucket, race: Race) -> None:
    check_some_orders(bucket, race, threshold_bytes=SMALLEST_PART_BYTES)
