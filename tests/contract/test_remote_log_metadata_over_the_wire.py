from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract.remote_log_metadata_contract import RemoteLogMetadataContract

from support.planes import Planes
from tiergate_client import connect
from tiergate_client.interfaces import RemoteLogMetadata


class TestMetadataOverTheWire(RemoteLogMetadataContract):
    @pytest.fixture
    def metadata(self, planes: Planes) -> Iterator[RemoteLogMetadata]:
        with connect(planes.target, timeout_s=10) as tiergate:
            yield tiergate.metadata
