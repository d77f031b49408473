"""The settings of segments in S3. Credentials are none of them: the SDK finds those itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiergate_server.config.errors import ConfigError
from tiergate_server.config.fields import setting, table_setting
from tiergate_server.config.kinds import choice, integer, table, text

MEBIBYTE = 1024 * 1024
_MOST_TAGS = 10
_ENDPOINT = text(expected='expected http://host[:port], https://host[:port] or ""', pattern=r"|https?://[^/@\s]+/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Config:
    endpoint_url: str = setting(
        "",
        kind=_ENDPOINT,
        meaning="Where a store that speaks like S3 is reached; empty is Amazon's own.",
    )
    public_endpoint_url: str = setting(
        "",
        kind=_ENDPOINT,
        meaning="Where clients reach the same store, when not at `endpoint_url`: the URLs they are given lead there.",
    )
    region: str = setting(
        "",
        kind=text(expected='expected the name of a region or ""', pattern=r"[a-z0-9-]{0,50}"),
        meaning="The bucket's region; empty leaves it to the SDK (`AWS_REGION`, the profile).",
    )
    path_style: str = setting(
        "auto",
        kind=choice("auto", "always", "never"),
        meaning="Whether the bucket is named in the path of URLs rather than in the host; `auto` does so with an "
        "`endpoint_url`.",
    )
    part_bytes: int = setting(
        8 * MEBIBYTE,
        kind=integer(minimum=5 * MEBIBYTE, maximum=5 * 1024 * MEBIBYTE),
        meaning="Size of the parts that a large object is sent in; it grows by itself where 10,000 parts are too few. "
        "Whole mebibytes, at least 5 of them; an upload holds one in memory.",
    )
    multipart_threshold_bytes: int = setting(
        8 * MEBIBYTE,
        kind=integer(minimum=0, maximum=5 * 1024 * MEBIBYTE),
        meaning="Objects of up to this size are sent whole, and held in memory until then.",
    )
    conditional_writes: str = setting(
        "required",
        kind=choice("required", "unsafe"),
        meaning="`required` refuses a store that ignores `If-None-Match`. `unsafe` accepts it, and writes look whether "
        "a key is taken before they put: two copies of one segment at once could then replace each other's manifest, "
        "and a cancelled copy could come back.",
    )
    sse: str = setting(
        "",
        kind=text(expected='expected AES256, aws:kms or ""', pattern=r"|AES256|aws:kms"),
        meaning="How S3 encrypts what is written; empty leaves it to the bucket.",
    )
    sse_kms_key_id: str = setting(
        "",
        kind=text(expected='expected the id or ARN of a key, or ""', pattern=r"[\w:/-]{0,2048}"),
        meaning="The key that `aws:kms` encrypts with; empty is the account's own for S3.",
    )
    storage_class: str = setting(
        "",
        kind=text(expected='expected a storage class such as STANDARD_IA, or ""', pattern=r"[A-Z0-9_]{0,50}"),
        meaning="The storage class of what is written; empty is S3's default. Not one that has to be restored to read.",
    )
    tags: Mapping[str, str] = table_setting(kind=table(), meaning="Tags of every object that is written, ten at most.")

    def __post_init__(self) -> None:
        if self.part_bytes % MEBIBYTE:
            raise ConfigError(
                f"segments.s3.part_bytes = {self.part_bytes} is not made of whole blocks: expected a multiple of "
                f"{MEBIBYTE} (1 MiB)."
            )
        if self.sse_kms_key_id and self.sse != "aws:kms":
            raise ConfigError('segments.s3.sse_kms_key_id has no effect: set segments.s3.sse = "aws:kms", too.')
        if len(self.tags) > _MOST_TAGS:
            raise ConfigError(f"segments.s3.tags has {len(self.tags)} tags: S3 takes {_MOST_TAGS} at most.")

    @property
    def is_path_style(self) -> bool:
        return self.path_style == "always" or (self.path_style == "auto" and bool(self.endpoint_url))
