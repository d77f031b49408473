"""Values to and from the messages of the storage service; those of several services are `conversions`'."""

from __future__ import annotations

from tiergate.v1 import storage_pb2
from tiergate_client.conversions import (
    file_from_proto,
    file_to_proto,
    id_from_proto,
    manifest_from_proto,
    manifest_to_proto,
)
from tiergate_client.ids import SegmentId
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.upload_progress import UploadProgress, UploadSummary
from tiergate_client.verification import Damage, VerificationProgress


def resolved_to_proto(resolved: ResolvedSegment) -> storage_pb2.ResolveSegmentResponse:
    return storage_pb2.ResolveSegmentResponse(
        manifest=manifest_to_proto(resolved.manifest),
        locations=[storage_pb2.FileLocation(file=file_to_proto(file), url=url) for file, url in resolved.urls.items()],
        expires_at_ms=resolved.expires_at_ms,
        valid_ms=resolved.valid_ms,
    )


def resolved_from_proto(message: storage_pb2.ResolveSegmentResponse) -> ResolvedSegment:
    return ResolvedSegment(
        manifest_from_proto(message.manifest, "manifest"),
        {file_from_proto(location.file): location.url for location in message.locations},
        expires_at_ms=message.expires_at_ms,
        valid_ms=message.valid_ms,
    )


def upload_to_proto(upload: UploadSummary) -> storage_pb2.Upload:
    return storage_pb2.Upload(
        segment_id=upload.segment_id.raw,
        upload_digest=bytes.fromhex(upload.upload_digest),
        started_at_ms=upload.started_at_ms,
        log_size_bytes=upload.log_size_bytes,
        log_committed_bytes=upload.log_committed_bytes,
        store=upload.store,
    )


def upload_from_proto(message: storage_pb2.Upload) -> UploadSummary:
    return UploadSummary(
        id_from_proto(SegmentId, message.segment_id, "segment_id"),
        message.upload_digest.hex(),
        message.started_at_ms,
        log_size_bytes=message.log_size_bytes,
        log_committed_bytes=message.log_committed_bytes,
        store=message.store,
    )


def progress_to_proto(progress: UploadProgress) -> storage_pb2.GetUploadResponse:
    return storage_pb2.GetUploadResponse(
        files=[
            storage_pb2.FileProgress(file=file_to_proto(file), committed_bytes=committed)
            for file, committed in progress.committed_bytes.items()
        ],
        custom_metadata=progress.custom_metadata,
    )


def progress_from_proto(message: storage_pb2.GetUploadResponse) -> UploadProgress:
    return UploadProgress(
        {file_from_proto(it.file): it.committed_bytes for it in message.files},
        message.custom_metadata if message.HasField("custom_metadata") else None,
    )


def verification_to_proto(progress: VerificationProgress) -> storage_pb2.VerifySegmentResponse:
    return storage_pb2.VerifySegmentResponse(
        verified_bytes=progress.verified_bytes,
        total_bytes=progress.total_bytes,
        damages=[
            storage_pb2.Damage(file=file_to_proto(damage.file), position=damage.position, fact=damage.fact)
            for damage in progress.damages
        ],
    )


def verification_from_proto(message: storage_pb2.VerifySegmentResponse) -> VerificationProgress:
    damages = (Damage(file_from_proto(damage.file), damage.position, damage.fact) for damage in message.damages)
    return VerificationProgress(message.verified_bytes, message.total_bytes, tuple(damages))
