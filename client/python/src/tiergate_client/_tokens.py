"""The consistency token of a client: what it has seen of the metadata log, merged from every answer."""

from __future__ import annotations

from tiergate.v1 import types_pb2
from tiergate_client._fork_safety import ForkSafe
from tiergate_client.conversions import token_to_proto
from tiergate_client.errors import LogChanged, TiergateError
from tiergate_client.ids import LogId
from tiergate_client.values import ConsistencyToken


class TokenKeeper(ForkSafe):
    """Holds the merged token of the log that the client speaks with. Safe to use from many threads."""

    def __init__(self) -> None:
        super().__init__()
        self._token: ConsistencyToken | None = None
        self._dropped: set[LogId] = set()

    @property
    def token(self) -> ConsistencyToken | None:
        return self._token

    def to_send(self) -> types_pb2.ConsistencyToken | None:
        token = self._token
        return None if token is None else token_to_proto(token)

    def received(self, token: ConsistencyToken) -> None:
        """Merges a token. One of another log than ours waits until ours is dropped; of a dropped one, for ever."""
        with self.lock:
            mine = self._token
            if mine is None and token.log_id not in self._dropped:
                self._token = token
            elif mine is not None and mine.log_id == token.log_id:
                self._token = mine.merged(token)

    def learn(self, failure: TiergateError, *, sent: types_pb2.ConsistencyToken | None) -> None:
        """What a refusal says about the log: that it is another one, or how far it was applied."""
        if isinstance(failure, LogChanged):
            self.drop(sent)
        elif failure.token is not None:
            self.received(failure.token)

    def drop(self, sent: types_pb2.ConsistencyToken | None) -> None:
        """Forgets the log of a token that was refused, unless another one took its place meanwhile."""
        with self.lock:
            if sent is not None and self._token is not None and self._token.log_id.raw == sent.log_id:
                self._dropped.add(self._token.log_id)
                self._token = None
