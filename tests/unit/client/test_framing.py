"""Messages framed by hand are those that protobuf writes and reads."""

from __future__ import annotations

from google.rpc import status_pb2
from hypothesis import given
from hypothesis import strategies as st

from tiergate.v1 import storage_pb2 as pb
from tiergate_client import framing

uint32 = st.integers(0, 2**32 - 1)
positions = st.integers(0, 2**63 - 1)
data = st.binary(max_size=300)


@given(file=st.integers(0, 7), offset=positions, crc32c=uint32, data=data)
def test_copy_chunk_is_framed_as_protobuf_does(file: int, offset: int, crc32c: int, data: bytes) -> None:
    chunk = pb.Chunk(file=file, offset=offset, crc32c=crc32c, data=data)  # type: ignore[arg-type]  # any number
    framed = framing.frame_copy_chunk(file=file, offset=offset, crc32c=crc32c, data=data)
    assert framed == pb.CopySegmentRequest(chunk=chunk).SerializeToString()


@given(offset=positions, crc32c=uint32, stream_crc32c=st.none() | uint32, data=data)
def test_fetched_chunk_is_framed_and_parsed_as_protobuf_does(
    offset: int, crc32c: int, stream_crc32c: int | None, data: bytes
) -> None:
    message = pb.FetchSegmentResponse(offset=offset, crc32c=crc32c, stream_crc32c=stream_crc32c, data=data)
    frame = framing.FetchedChunkFrame(offset=offset, data_bytes=len(data), is_last=stream_crc32c is not None)
    frame.data[:] = data
    framed = frame.finished(crc32c=crc32c, stream_crc32c=stream_crc32c or 0)
    assert framed == message.SerializeToString()
    parsed = framing.parse_fetched_chunk(framed)
    assert (parsed.offset, parsed.crc32c, parsed.stream_crc32c, bytes(parsed.data)) == (
        offset,
        crc32c,
        stream_crc32c,
        data,
    )


@given(size_bytes=positions, crc32c=uint32, data=data)
def test_index_piece_is_framed_as_protobuf_does(size_bytes: int, crc32c: int, data: bytes) -> None:
    message = pb.FetchIndexResponse(size_bytes=size_bytes, crc32c=crc32c, data=data)
    assert framing.frame_index_piece(size_bytes=size_bytes, crc32c=crc32c, data=data) == message.SerializeToString()


@given(items=st.lists(st.tuples(uint32, data | st.text(min_size=1)), max_size=5))
def test_index_answers_are_framed_one_after_another_as_protobuf_does(items: list[tuple[int, bytes | str]]) -> None:
    """Bytes stand for an index, text for the message of a refusal."""
    message = pb.BatchFetchIndexesResponse()
    framed = b""
    for number, content in items:
        if isinstance(content, bytes):
            message.items.add(crc32c=number, data=content)
            framed += framing.frame_index_answer(crc32c=number, data=content)
        else:
            refusal = message.items.add(status=status_pb2.Status(code=number % 17, message=content))
            framed += framing.frame_index_refusal(refusal.SerializeToString())
    assert framed == message.SerializeToString()
