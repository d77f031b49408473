from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from support.forgetful_disk import ForgetfulDisk, PowerCut
from tiergate_server.adapters.durable_directories import make_durable_directories

DIRECTORY = Path("/srv/tiergate/data")


def is_there(disk: ForgetfulDisk, directory: Path) -> bool:
    try:
        disk.entries(directory)
    except FileNotFoundError:
        return False
    return True


def operations_of_a_first_run() -> int:
    disk = ForgetfulDisk()
    make_durable_directories(disk, DIRECTORY)
    return disk.operations


def test_directories_survive_a_power_cut() -> None:
    disk = ForgetfulDisk()
    make_durable_directories(disk, DIRECTORY)
    disk.restart()
    assert is_there(disk, DIRECTORY)


def test_directories_that_a_killed_process_left_unsynced_survive_a_power_cut() -> None:
    for operations in range(operations_of_a_first_run()):
        disk = ForgetfulDisk()
        disk.cut_after(operations)
        with suppress(PowerCut):
            make_durable_directories(disk, DIRECTORY)
        disk.restart_process()
        make_durable_directories(disk, DIRECTORY)
        disk.restart()
        assert is_there(disk, DIRECTORY), f"killed after {operations} operations"


class ClosedAbove(ForgetfulDisk):
    """Directories above /srv cannot be synced."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def fsync_directory(self, path: Path) -> None:
        if path == Path("/"):
            raise OSError(self._code, errno.errorcode[self._code], str(path))
        super().fsync_directory(path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP])
def test_directory_above_that_is_closed_to_us_is_left_alone(code: int) -> None:
    disk = ClosedAbove(code)
    disk.mkdir(Path("/srv"))
    make_durable_directories(disk, DIRECTORY)
    assert is_there(disk, DIRECTORY)


@pytest.mark.parametrize(("code", "is_made_here"), [(errno.EIO, False), (errno.EACCES, True)])
def test_directory_that_cannot_be_made_durable_is_an_error(code: int, is_made_here: bool) -> None:
    disk = ClosedAbove(code)
    if not is_made_here:
        disk.mkdir(Path("/srv"))
    with pytest.raises(OSError, match=errno.errorcode[code]):
        make_durable_directories(disk, DIRECTORY)
