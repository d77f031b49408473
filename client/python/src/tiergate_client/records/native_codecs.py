"""The C functions in the packages `lz4` and `zstandard`, which compiled loops call by their addresses: for a batch of
16 KiB, the way from Python to them and back takes as long as to decompress it.

Both packages are optional, and so is that they show these functions.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from tiergate_client.records.batch_format import Codec

_logger = logging.getLogger(__name__)


class NativeCodecs:
    """Addresses, 0 for what is not there. Not to be shared by threads."""

    def __init__(self) -> None:
        self.lz4 = self.zstd = self.zstd_frame_size = self.zstd_state = 0
        with _told("lz4"):
            self.lz4 = _address(_library("lz4.block._block").LZ4_decompress_safe)
        with _told("zstandard"):
            self._load_zstd(_library("zstandard._cffi"))
        addresses = {Codec.LZ4: self.lz4, Codec.ZSTD: self.zstd}
        self.codecs = frozenset(codec for codec, address in addresses.items() if address)

    def _load_zstd(self, library: ctypes.CDLL) -> None:
        function, frame_size = library.ZSTD_decompressDCtx, library.ZSTD_findFrameCompressedSize
        create, free = library.ZSTD_createDCtx, library.ZSTD_freeDCtx
        create.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        state: int | None = create()
        if state is None:
            raise MemoryError
        weakref.finalize(self, free, state).atexit = False  # a thread may be decompressing then
        self.zstd, self.zstd_frame_size, self.zstd_state = _address(function), _address(frame_size), state


@contextmanager
def _told(package: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, OSError, AttributeError) as error:
        _logger.debug("Without the functions of %s, pyarrow decompresses its frames one by one: %s", package, error)


@cache
def _library(module: str) -> ctypes.CDLL:
    """The file of an extension module. Raises ImportError, OSError."""
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ImportError(module)
    return ctypes.CDLL(found.origin)


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
