r"""The file `partition.metadata`, in which a broker keeps the id of a partition's topic.

    file = "version: 0" LF "topic_id: " id LF

for example `version: 0\ntopic_id: 7zR0kVw9QJ2Qm1yQ6y0c5A\n`. A last line end may be missing.
"""

from __future__ import annotations

import re

from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId

_FORMAT = re.compile(r"version: (\d+)\ntopic_id: (\S+)\n?")


def encode(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {topic_id}\n".encode("ascii")


def decode(content: bytes) -> TopicId:
    match = _FORMAT.fullmatch(content.decode("ascii", errors="replace"))
    if match is None:
        raise InvalidField.of("partition.metadata", "expected the two lines 'version: 0' and 'topic_id: <id>'")
    if match[1] != "0":
        raise InvalidField.of("partition.metadata", f"version {match[1]} is not known, only 0 is")
    return TopicId.from_text(match[2])
