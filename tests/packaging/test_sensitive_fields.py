"""What grants something to whoever has it is marked as such in the .proto files, so that nobody logs it by accident."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tiergate.v1 import storage_pb2, types_pb2

_PACKAGE = Path(types_pb2.__file__).parent
# Not `token`: those of pages and of consistency grant nothing.
_GRANTS = re.compile(
    r"(^|_)(ur[li]s?|presigned|signature|credentials?|password|secret|api_key|access_key|bearer|grant)(_|$)"
)


def fields_of(message: Descriptor) -> Iterator[FieldDescriptor]:
    yield from message.fields
    for nested in message.nested_types:
        yield from fields_of(nested)


def all_fields() -> list[FieldDescriptor]:
    modules = [importlib.import_module(f"tiergate.v1.{file.stem}") for file in _PACKAGE.glob("*_pb2.py")]
    return [
        field
        for module in modules
        for message in module.DESCRIPTOR.message_types_by_name.values()
        for field in fields_of(message)
    ]


def is_sensitive(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[types_pb2.sensitive])


def test_every_url_and_credential_is_marked_as_sensitive() -> None:
    granting = [field for field in all_fields() if _GRANTS.search(field.name)]
    assert storage_pb2.FileLocation.DESCRIPTOR.fields_by_name["url"] in granting
    assert [field.full_name for field in granting if not is_sensitive(field)] == []


def test_only_text_and_bytes_are_marked_as_sensitive() -> None:
    marked = [field for field in all_fields() if is_sensitive(field)]
    assert {field.type for field in marked} <= {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}
