"""The server's configuration: what can be set, how it is put together, and its reference for the docs.

Nothing here opens, binds or creates anything.
"""

from tiergate_server.config.errors import ConfigError
from tiergate_server.config.loading import load_config
from tiergate_server.config.schema import (
    Config,
    MetadataConfig,
    MetadataLimits,
    SegmentsConfig,
    SegmentsLimits,
)

__all__ = [
    "Config",
    "ConfigError",
    "MetadataConfig",
    "MetadataLimits",
    "SegmentsConfig",
    "SegmentsLimits",
    "load_config",
]
