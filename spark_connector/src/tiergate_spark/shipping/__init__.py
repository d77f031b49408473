"""The zip that brings this package to executors: `--py-files`, or `ship` in a session that runs already.

It holds our own code alone. What that needs (pyarrow, numpy, numba, lz4, zstandard, awscrt, grpcio, protobuf, crc32c,
googleapis-common-protos) has compiled parts and must be on the executors' image.
"""

from __future__ import annotations

import atexit
import py_compile
import shutil
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

PACKAGES: Final = ("tiergate", "tiergate_client", "tiergate_spark", "pyspark_tiergate")
# Spark's file server takes a name once: one that was given as --py-files has the other.
SHIPPED_NAME: Final = "tiergate-spark-shipped.zip"
# The decoder copies this file from the zip to the node's cache, where numba keeps what it compiles.
_READ_AS_SOURCE: Final = "_kernels.py"
_OF_STREAMS: Final = "streaming_job"
# Zips have no earlier date. The same code makes the same zip.
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


def write_package_zip(path: Path) -> Path:
    """Writes the packages as they are installed here."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for directory in _directories(package):
                for source in sorted(directory.rglob("*.py")):
                    name = source.relative_to(directory.parent).as_posix()
                    _add(archive, name, source.read_bytes())
                    if source.name != _READ_AS_SOURCE:
                        _add(archive, f"{name}c", _compiled(source, name))
    return path


def ship(spark: SparkSession) -> None:
    """Sends the package to the executors of a session.

    They fetch the zip from where it lies when they start, also those that come late: it is kept while the driver lives.
    A second time is fine.
    """
    spark.sparkContext.addPyFile(str(_shipped_zip()))
    show_to_streams()


def show_to_streams() -> None:
    """Lets the driver's side of a stream find what was shipped: a process of its own, with the executors' Python.

    Spark 4.2 tells it to look for files in a directory of streams, into which it puts none: there are links then. Where
    none can be made, the package has to be installed for streams.
    """
    try:
        from pyspark import SparkFiles  # noqa: PLC0415 - a client of Spark Connect alone has none

        shipped = Path(SparkFiles.getRootDirectory())
    except (ImportError, AssertionError):  # or has no such directory
        return
    for file in shipped.iterdir():
        link = shipped / _OF_STREAMS / file.name
        with suppress(OSError):
            if file.is_file() and not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.unlink(missing_ok=True)  # it may lead to a file that is not there any more
                link.symlink_to(file)


@cache
def _shipped_zip() -> Path:
    directory = tempfile.mkdtemp(prefix="tiergate-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return write_package_zip(Path(directory) / SHIPPED_NAME)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _NO_DATE), content, zipfile.ZIP_DEFLATED)


def _compiled(source: Path, name: str) -> bytes:
    """For this release of Python; another one compiles the source. Of a zip, every new process would do that again."""
    with tempfile.NamedTemporaryFile(suffix=".pyc") as file:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(source), cfile=file.name, dfile=name, doraise=True, invalidation_mode=mode)
        return Path(file.name).read_bytes()


def _directories(package: str) -> list[Path]:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{package} is not installed: install tiergate-spark")
    return [Path(place) for place in spec.submodule_search_locations]
