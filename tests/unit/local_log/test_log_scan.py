from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.local_log.log_scan import CorruptLog, LogScan, scan_log
from tiergate_server.kafka_files.record_batches import Record, encode_batch

BATCHES = [
    encode_batch([Record(100, b"k", b"v"), Record(300, None, None)], base_offset=10, leader_epoch=0),
    encode_batch([Record(200, b"k", b"v")], base_offset=20, leader_epoch=1),
    encode_batch([Record(50, b"key", b"value")], base_offset=21, leader_epoch=1),
]
LOG = b"".join(batch.content for batch in BATCHES)
SECOND_AT = len(BATCHES[0].content)


def written(directory: Path, content: bytes) -> Path:
    path = directory / "x.log"
    path.write_bytes(content)
    return path


def changed(position: int, field: bytes) -> bytes:
    return LOG[:position] + field + LOG[position + len(field) :]


def test_scan_tells_offsets_newest_timestamp_and_count(tmp_path: Path) -> None:
    assert scan_log(written(tmp_path, LOG)) == LogScan(10, 21, 300, 3)


def test_scan_of_an_empty_log_finds_nothing(tmp_path: Path) -> None:
    assert scan_log(written(tmp_path, b"")) == LogScan(None, None, -1, 0)


def test_scan_accepts_a_batch_without_records_and_a_timestamp_beyond_the_calendar(tmp_path: Path) -> None:
    empty = bytearray(encode_batch([Record(2**53 + 1, None, None)], base_offset=5, leader_epoch=0).content[:61])
    struct.pack_into(">i", empty, 8, 61 - 12)
    struct.pack_into(">i", empty, 23, 9)
    struct.pack_into(">i", empty, 57, 0)
    struct.pack_into(">I", empty, 17, crc32c(empty[21:]))
    assert scan_log(written(tmp_path, bytes(empty))) == LogScan(5, 14, 2**53 + 1, 1)


@given(size=st.integers(1, len(LOG) - 1))
def test_scan_refuses_a_log_that_is_cut_anywhere_but_between_batches(
    size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(tmp_path_factory.mktemp("cut"), LOG[:size])
    borders = [SECOND_AT, SECOND_AT + len(BATCHES[1].content)]
    if size in borders:
        assert scan_log(path).batch_count == borders.index(size) + 1
    else:
        begun = max([0, *[border for border in borders if border < size]])
        with pytest.raises(CorruptLog, match=f"x.log: the batch at position {begun} is cut"):
            scan_log(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (changed(SECOND_AT + 16, b"\x01"), f"position {SECOND_AT} has the old format 1; only format 2"),
        (changed(16, b"\x00"), "position 0 has the old format 0"),
        (changed(16, b"\x63"), r"position 0 has a corrupt header \(format 99\)"),
        (changed(SECOND_AT + 8, struct.pack(">i", 48)), f"position {SECOND_AT} has a corrupt header"),
        (changed(8, struct.pack(">i", -1)), "position 0 has a corrupt header"),
        (changed(23, struct.pack(">i", -1)), "position 0 has a corrupt header"),
        (changed(0, struct.pack(">q", -1)), "position 0 has a corrupt header"),
        (changed(SECOND_AT, struct.pack(">q", 11)), f"position {SECOND_AT} begins with offset 11, .* ends with 11"),
        (LOG + bytes(100), f"position {len(LOG)} has the old format 0"),
    ],
)
def test_scan_refuses_a_corrupt_header_and_names_its_position(tmp_path: Path, content: bytes, complaint: str) -> None:
    with pytest.raises(CorruptLog, match=complaint):
        scan_log(written(tmp_path, content))


@given(batch=st.integers(0, 2), data=st.data())
def test_scan_refuses_a_batch_of_which_any_checksummed_bit_flipped(
    batch: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    begin = sum(len(before.content) for before in BATCHES[:batch])
    # A flipped last-offset-delta may be refused for its value, before the checksum is looked at.
    at = begin + data.draw(st.integers(17, len(BATCHES[batch].content) - 1).filter(lambda at: not 23 <= at < 27))
    content = changed(at, bytes([LOG[at] ^ (1 << data.draw(st.integers(0, 7)))]))
    with pytest.raises(
        CorruptLog, match=f"x.log: the batch at position {begin} is damaged: its checksum is .* another replica$"
    ):
        scan_log(written(tmp_path_factory.mktemp("flipped"), content))


def test_scan_checks_the_sum_of_a_batch_of_several_pieces(tmp_path: Path) -> None:
    large = encode_batch([Record(1, None, bytes(3 * 1024 * 1024))], base_offset=0, leader_epoch=0).content
    assert scan_log(written(tmp_path, large)).batch_count == 1
    with pytest.raises(CorruptLog, match="position 0 is damaged"):
        scan_log(written(tmp_path, large[:-1] + b"\x01"))


def test_scan_of_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    batch = bytearray(encode_batch([Record(100, None, bytes(4000))], base_offset=0, leader_epoch=0).content)
    path = tmp_path / "large.log"
    with path.open("wb") as log:
        for offset in range(64 * 1024):
            struct.pack_into(">q", batch, 0, offset)
            log.write(batch)
    assert path.stat().st_size > 250 * 1024 * 1024
    script = (
        "import sys; from pathlib import Path\n"
        "from tiergate_client.local_log.log_scan import scan_log\n"
        "count = scan_log(Path(sys.argv[1])).batch_count\n"
        "status = Path('/proc/self/status').read_text()\n"  # ru_maxrss would count what the parent had at the fork
        "print(count, status.partition('VmHWM:')[2].split()[0])\n"
    )
    said = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True).stdout
    count, resident_kibibytes = map(int, said.split())
    assert count == 64 * 1024
    assert resident_kibibytes < 100 * 1024
