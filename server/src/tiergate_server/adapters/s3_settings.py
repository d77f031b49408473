"""What a user says about a bucket, held to S3's own limits. Credentials are none of it: the SDK finds them itself."""

from __future__ import annotations

from dataclasses import dataclass

_MEBIBYTE = 1024 * 1024
SMALLEST_PART_BYTES = 5 * _MEBIBYTE
LARGEST_PART_BYTES = 5 * 1024 * _MEBIBYTE
MOST_PARTS = 10_000
_PARTS_PER_SIZE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    """None is Amazon's own for the region."""
    region: str | None = None
    path_style: bool = False
    """The bucket in the path of URLs rather than in the name of the host."""
    part_bytes: int = 8 * _MEBIBYTE
    multipart_threshold_bytes: int = 8 * _MEBIBYTE
    """Objects up to this size are put in one request, and held in memory until then."""
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 20.0
    max_attempts: int = 4
    connections: int = 64
    """Calls in flight at the same time, beyond which connections are not kept."""
    senders: int = 64
    """Threads that send parts, while those that brought them receive the next."""

    def __post_init__(self) -> None:
        if not SMALLEST_PART_BYTES <= self.part_bytes <= LARGEST_PART_BYTES:
            raise ValueError(
                f"parts of {self.part_bytes} bytes are outside S3's limits: expected {SMALLEST_PART_BYTES} to "
                f"{LARGEST_PART_BYTES}"
            )
        if not 0 <= self.multipart_threshold_bytes <= LARGEST_PART_BYTES:
            raise ValueError(
                f"a threshold of {self.multipart_threshold_bytes} bytes is outside S3's limits: expected 0 to "
                f"{LARGEST_PART_BYTES}"
            )

    @property
    def place(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def size_of_part(self, number: int) -> int:
        """The size of a part, which are counted from 1.

        How large the object will be is not known when it begins, and 10,000 equal parts could be too few: every 1,000
        parts the size doubles, so that the smallest parts already make an object of almost 5 TiB.
        """
        return min(self.part_bytes << ((number - 1) // _PARTS_PER_SIZE), LARGEST_PART_BYTES)
