"""How the header of a record batch of format 2 is laid out, for code that has no numpy; reading one is not done here.

    batch = base-offset[i64] length[i32] leader-epoch[i32] magic[i8]=2 crc32c[u32] attributes[i16]
            last-offset-delta[i32] base-timestamp[i64] max-timestamp[i64] producer-id[i64] producer-epoch[i16]
            base-sequence[i32] count[i32] { record }

Big-endian. `length` counts what follows it, the checksum covers everything from the attributes on.
"""

from __future__ import annotations

import struct
from typing import Final

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_AT: Final = 8
LENGTH_ENDS_AT: Final = 12
MAGIC_AT: Final = 16
CHECKSUMMED_FROM: Final = 21
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
HAS_DELETE_HORIZON: Final = 0x40
