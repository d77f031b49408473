"""URLs that read a segment's files past the service, made by the store that holds them. Nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable

from tiergate_client.errors import NotOffered, StorageUnavailable
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.object_store import ObjectPresigner

DEFAULT_URL_SECONDS = 900


def resolved(
    manifest: SegmentManifest,
    files: Iterable[SegmentFile],
    keys: SegmentKeys,
    presigner: ObjectPresigner,
    *,
    valid_s: int,
    now_ms: int,
) -> ResolvedSegment:
    """`now_ms` was before this call, so that nothing is valid for less than it says. Raises NotOffered."""
    urls: dict[SegmentFile, str] = {}
    for file in files:
        url = presigner.presign(keys.file(manifest.upload_digest, file), valid_s=valid_s)
        if url is None:
            raise _no_urls(manifest)
        urls[file] = url
    if not urls and not offers_urls(presigner):
        raise _no_urls(manifest)
    return ResolvedSegment(manifest, urls, expires_at_ms=now_ms + valid_s * 1000, valid_ms=valid_s * 1000)


def offers_urls(presigner: ObjectPresigner) -> bool:
    """Whether it is of a kind that does."""
    try:
        return presigner.presign("any", valid_s=1) is not None
    except StorageUnavailable:  # such as credentials that are not there yet
        return True


def _no_urls(manifest: SegmentManifest) -> NotOffered:
    return NotOffered(
        f"the store that holds segment {manifest.metadata.segment_id} gives no URLs: read through the service, as "
        "clients do whose access is auto"
    )
