from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.cache_scenarios import PARTITION, segment
from unit.metadata.snapshot_scenarios import HEADER, LOG_ID, PARTITIONS, encoded, small_partition

from support.metadata_answers import answers
from tiergate_client.values import SegmentState
from tiergate_server.metadata.snapshot import MetadataSnapshot, PartitionSnapshot, SnapshotRefused, capture
from tiergate_server.metadata.snapshot_codec import decode, encode
from tiergate_server.metadata.state import MetadataState

SMALL = encoded(small_partition())
BIGGER = replace(HEADER, partition_count=51)

EXAMPLE = bytes.fromhex(
    "54474d44534e4150 0001"  # magic, version
    "4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c 00000032 0000018bcfe56800"  # log id, partition count, time
    "01 00000003 0000000000000029 00000006"  # metadata partition 3 at offset 41, epoch 6
    "00000001 54545454545454545454545454545454 05 746f706963"  # topic
    "00000001 05 746f706963"  # mentioned name
    "00000000 00000000"  # deleted partitions, deletions under way
    "00000001 54545454545454545454545454545454 00000000 05 746f706963"  # user partition 0 of the topic
    "00000001 00000000000000000000000000000001 00000040"  # a segment of 64 bytes
    "0000000000000064 00000000000000c7 ffffffffffffffff 0000000000000007"  # offsets, times
    "000003e9 ffffffff 00000001 01 02 00000005 0000000000000064 637573746f6d"  # ..., epoch 5 from 100, custom
    "00000001 00000005 01 00000000000000c7 00000001 0000000000000064 00000000"  # epoch 5
    "00000000"  # former epochs
    "00 8e61d519"  # no more metadata partitions, checksum
)


def example_state() -> MetadataState:
    state = MetadataState()
    metadata = segment(1, 100, 199, {5: 100})
    state.apply(metadata)
    state.apply(metadata.step(SegmentState.COPY_FINISHED, event_timestamp_ms=7))
    return state


def with_checksum(content: bytes) -> bytes:
    return content + struct.pack(">I", crc32c(content))


def assert_can_be_used(snapshot: MetadataSnapshot) -> None:
    """Asking and applying everything raises nothing."""
    for partition in snapshot.partitions.values():
        state = partition.restore()
        answers(state, PARTITIONS)
        for number in range(7):
            metadata = segment(number, 0, 12)
            state.apply(metadata)
            for step in SegmentState:
                state.apply(metadata.step(step, event_timestamp_ms=9))
        answers(state, PARTITIONS)


def test_encoding_gives_the_example_bytes() -> None:
    assert encoded(capture(3, applied=41, leader_epoch=6, state=example_state())).hex() == EXAMPLE.hex()


def test_decoding_gives_the_example() -> None:
    snapshot = decode(EXAMPLE)
    assert (snapshot.log_id, snapshot.partition_count, snapshot.created_at_ms) == (LOG_ID, 50, 1_700_000_000_000)
    assert list(snapshot.partitions) == [3]
    partition = snapshot.partitions[3]
    assert (partition.number, partition.applied, partition.leader_epoch) == (3, 41, 6)
    assert answers(partition.restore(), [PARTITION]) == answers(example_state(), [PARTITION])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_encoding_again_gives_the_same_bytes(kind: type) -> None:
    file = encoded(small_partition(49), small_partition(0))
    snapshot = decode(kind(file))
    assert list(snapshot.partitions) == [49, 0]
    assert encoded(*snapshot.partitions.values()) == file


def test_snapshot_of_no_partition_is_one() -> None:
    assert decode(encoded()).partitions == {}


def test_chunks_are_bounded_and_partitions_are_asked_for_one_by_one() -> None:
    state = MetadataState()
    for number in range(20_000):
        state.apply(replace(segment(number, number, number), custom_metadata=b"c" * 64))
    partition = capture(0, applied=0, leader_epoch=0, state=state)
    sizes = [len(chunk) for chunk in encode(HEADER, [partition])]
    assert len(sizes) > 2
    assert max(sizes) < 4 * 1024 * 1024

    asked: list[int] = []

    def partitions() -> Iterator[PartitionSnapshot]:
        for number in range(3):
            asked.append(number)
            yield replace(partition, number=number)

    next(encode(HEADER, partitions()))
    assert asked == [0]


@pytest.mark.parametrize("numbers", [(3, 3), (50,), (-1,)])
def test_partition_that_comes_twice_or_does_not_exist_is_not_written(numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="comes twice"):
        encoded(*map(small_partition, numbers))


@pytest.mark.parametrize("numbers", [(3, 3), (50,)])
def test_partition_that_comes_twice_or_does_not_exist_is_refused(numbers: tuple[int, ...]) -> None:
    sections = b"".join(encoded(small_partition(number), header=BIGGER)[38:-5] for number in numbers)
    with pytest.raises(SnapshotRefused, match="twice"):
        decode(with_checksum(SMALL[:38] + sections + b"\0"))


def test_cut_at_any_byte_is_refused() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(SnapshotRefused):
            decode(SMALL[:length])


def test_cut_at_any_byte_is_refused_also_with_a_checksum_that_fits() -> None:
    for length in range(len(SMALL) - 4):
        with pytest.raises(SnapshotRefused):
            decode(with_checksum(SMALL[:length]))


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_flipped_byte_anywhere_is_refused(flip: int) -> None:
    for position in range(len(SMALL)):
        damaged = bytearray(SMALL)
        damaged[position] ^= flip
        with pytest.raises(SnapshotRefused):
            decode(damaged)


@pytest.mark.parametrize("tail", [b"\0", b"\1", SMALL])
def test_trailing_bytes_are_refused(tail: bytes) -> None:
    with pytest.raises(SnapshotRefused):
        decode(SMALL + tail)
    with pytest.raises(SnapshotRefused, match="behind the end"):
        decode(with_checksum(SMALL[:-4] + tail))


@pytest.mark.parametrize("value", [0x00, 0x01, 0x80, 0xFF])
def test_any_other_byte_with_a_checksum_that_fits_is_refused_or_can_be_used(value: int) -> None:
    for position in range(len(SMALL) - 4):
        changed = bytearray(SMALL[:-4])
        changed[position] = value
        try:
            snapshot = decode(with_checksum(bytes(changed)))
        except SnapshotRefused:
            continue
        assert_can_be_used(snapshot)


def test_reference_to_a_segment_behind_the_last_is_refused() -> None:
    position = EXAMPLE[-13:-9]
    assert position == bytes(4)
    with pytest.raises(SnapshotRefused, match="to no segment"):
        decode(with_checksum(EXAMPLE[:-13] + b"\0\0\0\1" + EXAMPLE[-9:-4]))


def test_former_epoch_of_a_segment_behind_the_last_is_refused() -> None:
    with pytest.raises(SnapshotRefused, match="of no segment"):
        decode(with_checksum(EXAMPLE[:-9] + bytes.fromhex("00000001 00000001 00000000 00")))


def test_former_epoch_that_the_partition_does_not_have_is_refused() -> None:
    with pytest.raises(SnapshotRefused, match=r"leader epoch 4 .* is missing"):
        decode(with_checksum(EXAMPLE[:-9] + bytes.fromhex("00000001 00000000 00000004 00")))


@settings(deadline=None)
@given(position=st.integers(10, len(SMALL) - 5), tail=st.binary(max_size=60), cut=st.integers(0, 60))
def test_random_bytes_with_a_checksum_that_fits_are_refused_or_can_be_used(
    position: int, tail: bytes, cut: int
) -> None:
    try:
        snapshot = decode(with_checksum(SMALL[:position] + tail + SMALL[position + cut : -4]))
    except SnapshotRefused:
        return
    assert_can_be_used(snapshot)


@pytest.mark.parametrize("huge", [b"\x00\x10\x00\x00", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"])
def test_huge_count_makes_no_room_for_what_does_not_follow(huge: bytes) -> None:
    tracemalloc.start()
    try:
        for position in range(10, len(SMALL) - 8):
            with suppress(SnapshotRefused):
                decode(with_checksum(SMALL[:position] + huge + SMALL[position + 4 : -4]))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 500_000


@pytest.mark.parametrize("data", [b"", b"TGMDSNAP", b"PK\3\4" * 100, bytes(100)])
def test_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotRefused, match="not a metadata snapshot"):
        decode(data)


def test_newer_format_is_refused_by_name() -> None:
    with pytest.raises(SnapshotRefused, match="format 2, but this release reads format 1"):
        decode(with_checksum(SMALL[:8] + b"\0\2" + SMALL[10:-4]))
