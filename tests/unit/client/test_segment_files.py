from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidField
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import BLOCK_BYTES, REQUIRED_FILES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition

METADATA = RemoteLogSegmentMetadata(
    partition=TopicIdPartition(TopicId(bytes.fromhex("00112233445566778899aabbccddeeff")), 3, "foo"),
    segment_id=SegmentId(bytes.fromhex("0123456789abcdef0123456789abcdef")),
    start_offset=100,
    end_offset=199,
    segment_leader_epochs=LeaderEpochs.of({4: 100, 6: 150}),
    segment_size_bytes=BLOCK_BYTES + 1,
)
MANIFEST = SegmentManifest(
    METADATA,
    {
        SegmentFile.LOG: FileChecksum(BLOCK_BYTES + 1, 0xAABBCCDD),
        SegmentFile.OFFSET_INDEX: FileChecksum(16, 1),
        SegmentFile.TIME_INDEX: FileChecksum(24, 2),
        SegmentFile.LEADER_EPOCH: FileChecksum(12, 3),
    },
    (0x11111111, 0x22222222),
)

# Written by hand from the grammar: it is in object keys for ever.
DIGESTED = bytes.fromhex(
    "74696572676174652d75706c6f61642d31"  # "tiergate-upload-1"
    "00112233445566778899aabbccddeeff" + "00000003"  # topic id, partition
    "0123456789abcdef0123456789abcdef"  # segment id
    "0000000000000064" + "00000000000000c7"  # 100 to 199
    "00000002" + "00000004" + "0000000000000064" + "00000006" + "0000000000000096"  # two epochs
    "00000004"  # four files, by name
    "0c" + "6c65616465725f65706f6368" + "000000000000000c" + "00000003"  # leader_epoch
    "03" + "6c6f67" + "0000000000100001" + "aabbccdd"  # log
    "0c" + "6f66667365745f696e646578" + "0000000000000010" + "00000001"  # offset_index
    "0a" + "74696d655f696e646578" + "0000000000000018" + "00000002"  # time_index
    "00000002" + "11111111" + "22222222"  # two blocks
)


def test_upload_digest_is_stable_for_ever() -> None:
    assert MANIFEST.upload_digest == hashlib.sha256(DIGESTED).hexdigest()[:32]
    assert MANIFEST.upload_digest == "18aeef23bc126d0a458ee421385c90ed"


def test_upload_digest_does_not_depend_on_the_order_of_files() -> None:
    assert replace(MANIFEST, files=dict(reversed(list(MANIFEST.files.items())))).upload_digest == MANIFEST.upload_digest


@pytest.mark.parametrize(
    "metadata",
    [
        replace(METADATA, event_timestamp_ms=5),
        replace(METADATA, broker_id=5),
        replace(METADATA, state=SegmentState.COPY_FINISHED),
        replace(METADATA, custom_metadata=b"x"),
        replace(METADATA, partition=TopicIdPartition(METADATA.partition.topic_id, 3, "renamed")),
    ],
)
def test_upload_digest_leaves_out_what_may_differ_between_attempts(metadata: RemoteLogSegmentMetadata) -> None:
    assert replace(MANIFEST, metadata=metadata).upload_digest == MANIFEST.upload_digest


OTHER_CONTENT = [
    replace(MANIFEST, metadata=replace(METADATA, start_offset=99)),
    replace(MANIFEST, metadata=replace(METADATA, end_offset=200)),
    replace(MANIFEST, metadata=replace(METADATA, segment_id=SegmentId(bytes(16)))),
    replace(MANIFEST, metadata=replace(METADATA, partition=TopicIdPartition(TopicId(bytes(16)), 3, "foo"))),
    replace(MANIFEST, metadata=replace(METADATA, partition=TopicIdPartition(METADATA.partition.topic_id, 4, "foo"))),
    replace(MANIFEST, metadata=replace(METADATA, segment_leader_epochs=LeaderEpochs.of({4: 100}))),
    replace(MANIFEST, log_block_crc32c=(0x11111111, 0x22222223)),
    replace(MANIFEST, files={**MANIFEST.files, SegmentFile.TIME_INDEX: FileChecksum(24, 4)}),
    replace(MANIFEST, files={**MANIFEST.files, SegmentFile.TIME_INDEX: FileChecksum(25, 2)}),
    replace(MANIFEST, files={**MANIFEST.files, SegmentFile.TXN_INDEX: FileChecksum(0, 0)}),
    replace(MANIFEST, files={**MANIFEST.files, SegmentFile.PRODUCER_SNAPSHOT: FileChecksum(0, 0)}),
]


def test_upload_digest_differs_for_other_content() -> None:
    digests = {MANIFEST.upload_digest, *(manifest.upload_digest for manifest in OTHER_CONTENT)}
    assert len(digests) == 1 + len(OTHER_CONTENT)


@pytest.mark.parametrize("file", [file for file in SegmentFile if file in REQUIRED_FILES])
def test_manifest_without_a_required_file_is_refused(file: SegmentFile) -> None:
    files = {each: checksum for each, checksum in MANIFEST.files.items() if each is not file}
    with pytest.raises(InvalidField, match=file.value):
        SegmentManifest(METADATA, files, MANIFEST.log_block_crc32c)


@pytest.mark.parametrize(
    ("size_bytes", "block_count"), [(0, 0), (1, 1), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 2), (2**31 - 1, 2048)]
)
def test_log_has_a_checksum_for_each_begun_block(size_bytes: int, block_count: int) -> None:
    files = {**MANIFEST.files, SegmentFile.LOG: FileChecksum(size_bytes, 0)}
    assert SegmentManifest(METADATA, files, (0,) * block_count).log.size_bytes == size_bytes
    for wrong in {block_count - 1, block_count + 1} - {-1}:
        with pytest.raises(InvalidField, match=f"has {block_count} blocks, not {wrong}"):
            SegmentManifest(METADATA, files, (0,) * wrong)


def test_log_beyond_two_gibibytes_is_refused() -> None:
    files = {**MANIFEST.files, SegmentFile.LOG: FileChecksum(2**31, 0)}
    with pytest.raises(InvalidField, match="at most 2147483647 bytes"):
        SegmentManifest(METADATA, files, (0,) * 2048)


@pytest.mark.parametrize("size_bytes", [-1, 2**63])
def test_file_of_impossible_size_is_refused(size_bytes: int) -> None:
    with pytest.raises(InvalidField, match="size_bytes"):
        FileChecksum(size_bytes, 0)
