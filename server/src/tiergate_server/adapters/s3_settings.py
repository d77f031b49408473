"""What a user says about a bucket, held to S3's own limits. Credentials are none of it: the SDK finds them itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

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
    public_endpoint_url: str | None = None
    """Where whoever has a presigned URL reaches the store; None is the same."""
    region: str | None = None
    path_style: bool = False
    """The bucket in the path of URLs rather than in the name of the host."""
    # 256 MiB to a gateway on the same machine: parts of 5, 8, 16 and 32 MiB came to 1.1, 1.6, 1.6 and 1.8 times the
    # speed of boto3's upload_file. A killed process loses half a part on average: the larger ones are not worth it.
    part_bytes: int = 8 * _MEBIBYTE
    multipart_threshold_bytes: int = 8 * _MEBIBYTE
    """Objects up to this size are put in one request, and held in memory until then."""
    conditional_writes: bool = True
    """Without them a write looks whether its key is taken, and then puts: two at once could replace each other."""
    sse: str = ""
    sse_kms_key_id: str = ""
    storage_class: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
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
        if self.part_bytes % _MEBIBYTE:
            raise ValueError(f"parts of {self.part_bytes} bytes are not made of whole blocks: expected whole mebibytes")
        if not 0 <= self.multipart_threshold_bytes <= LARGEST_PART_BYTES:
            raise ValueError(
                f"a threshold of {self.multipart_threshold_bytes} bytes is outside S3's limits: expected 0 to "
                f"{LARGEST_PART_BYTES}"
            )

    @property
    def place(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def stored_as(self) -> dict[str, str]:
        """What S3 is told with every object: how to encrypt it, where to keep it, its tags."""
        told = {
            "ServerSideEncryption": self.sse,
            "SSEKMSKeyId": self.sse_kms_key_id,
            "StorageClass": self.storage_class,
            "Tagging": urlencode(self.tags),
        }
        return {name: value for name, value in told.items() if value}

    def part_bytes_for(self, size_bytes: int) -> int:
        """The size of the equal parts that an object of this size is sent in: whole mebibytes, at most 10,000 parts."""
        needed = -(-size_bytes // MOST_PARTS)
        return max(self.part_bytes, -(-needed // _MEBIBYTE) * _MEBIBYTE)

    def size_of_part(self, number: int) -> int:
        """The size of a part, which are counted from 1.

        How large the object will be is not known when it begins, and 10,000 equal parts could be too few: every 1,000
        parts the size doubles, so that the smallest parts already make an object of almost 5 TiB.
        """
        return min(self.part_bytes << ((number - 1) // _PARTS_PER_SIZE), LARGEST_PART_BYTES)
