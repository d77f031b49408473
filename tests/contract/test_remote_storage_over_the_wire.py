from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract.remote_storage_contract import RemoteStorageContract

from support.planes import Planes
from tiergate_client import connect
from tiergate_client.interfaces import RemoteStorage


class TestStorageOverTheWire(RemoteStorageContract):
    @pytest.fixture
    def storage(self, planes: Planes) -> Iterator[RemoteStorage]:
        with connect(planes.target, timeout_s=10) as tiergate:
            yield tiergate.storage
