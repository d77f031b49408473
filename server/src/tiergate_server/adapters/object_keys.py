"""Which keys an adapter takes, the same for all of them. Where an object lies is each adapter's business."""

from __future__ import annotations

from tiergate_server.segments.object_store import InvalidKey

_NAME_BYTES = 255
KEY_BYTES = 1024


def key_names(key: str, *, key_bytes: int = KEY_BYTES) -> list[str]:
    """The names that a key is made of. Raises InvalidKey."""
    names = key.split("/")
    try:
        fits = len(key.encode()) <= key_bytes and all(len(name.encode()) <= _NAME_BYTES for name in names)
    except UnicodeEncodeError:
        fits = False
    if not fits or any(not name or name.startswith(".") or "\0" in name or "\\" in name for name in names):
        raise InvalidKey(
            f"{key[:300]!r} is no key: expected names joined by '/', none empty, beginning with a dot or holding "
            f"NUL or a backslash, of at most {_NAME_BYTES} bytes each and {key_bytes} together"
        )
    return names


def is_key(name: str) -> bool:
    """Whether something that is found in a store can be an object of ours."""
    try:
        key_names(name)
    except InvalidKey:
        return False
    return True
