"""The memory allocator's settings for the process that moves segments.

glibc reads them from the environment when a process starts, so they cannot be set from inside it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

# Without them glibc maps and unmaps every chunk-sized buffer, page faults included: with them a download runs at
# 1404 instead of 568 MB/s. Only one of the two thresholds is worse than none.
_SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    "MALLOC_TOP_PAD_": "67108864",
}


def with_allocator_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What somebody has set by hand stays."""
    return {**_SETTINGS, **environment}


def lacks_allocator_settings(environment: Mapping[str, str]) -> bool:
    """Whether this process would have to be started anew to get them."""
    return sys.platform == "linux" and not _SETTINGS.keys() <= environment.keys()
