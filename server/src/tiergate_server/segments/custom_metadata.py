r"""The custom metadata that a copy returns and that the segment's metadata then carries: where its bytes are.

    custom-metadata = version[u8] upload-digest[16] name-length[u8] store-name            version is 1

for example `01 000102030405060708090a0b0c0d0e0f 07 "default"`: the upload 000102…0f in the store named "default". At
most 82 bytes; Kafka allows 128. Nothing here looks at the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiergate_client.errors import InvalidField, NotOffered

VERSION = 1
DEFAULT_STORE = "default"

_DIGEST = re.compile(r"[0-9a-f]{32}")
_DIGEST_BYTES = 16
_STORE_NAME_BYTES = 64


@dataclass(frozen=True, slots=True)
class CustomMetadataV1:
    """Which upload, in which store."""

    upload_digest: str
    store_name: str = DEFAULT_STORE

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.upload_digest):
            raise InvalidField.of("upload_digest", f"{self.upload_digest!r} is not 32 hex digits")
        if not self.store_name.isascii() or not 1 <= len(self.store_name) <= _STORE_NAME_BYTES:
            raise InvalidField.of("store_name", f"{self.store_name!r} is not 1 to {_STORE_NAME_BYTES} ASCII characters")

    def to_bytes(self) -> bytes:
        name = self.store_name.encode("ascii")
        return bytes([VERSION]) + bytes.fromhex(self.upload_digest) + bytes([len(name)]) + name

    @classmethod
    def from_bytes(cls, data: bytes) -> CustomMetadataV1:
        if not data:
            raise InvalidField.of("custom_metadata", "it is empty: expected what a copy returned")
        if data[0] > VERSION:
            raise NotOffered(
                f"custom metadata has version {data[0]}, of a newer release; this one reads {VERSION}: upgrade it"
            )
        digest, name = data[1 : 1 + _DIGEST_BYTES], data[2 + _DIGEST_BYTES :]
        if data[0] != VERSION or len(data) < 2 + _DIGEST_BYTES or data[1 + _DIGEST_BYTES] != len(name):
            raise InvalidField.of("custom_metadata", f"{data[:130].hex()} is not what a copy returned")
        if not name.isascii():
            raise InvalidField.of("custom_metadata", f"the store name {name!r} is not ASCII")
        return cls(digest.hex(), name.decode("ascii"))
