"""Files wherever Spark can write: those of Hadoop's file systems, as the driver sees them."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

# Renames a directory in one step that everybody sees; object stores copy and delete instead.
_RENAMING_SCHEMES: Final = frozenset(("file", "hdfs", "viewfs", "ofs", "o3fs", "maprfs"))
_FILE_EXISTS: Final = "org.apache.hadoop.fs.FileAlreadyExistsException"


class HadoopFiles:
    """Paths are texts, with or without a scheme."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._jvm: Any = context._jvm  # noqa: SLF001 - Spark has no public door to file systems in Python
        self._gateway: Any = context._gateway  # noqa: SLF001
        self._conf: Any = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def qualified(self, path: str) -> str:
        """With its scheme, and without what depends on where the driver runs."""
        return str(self._system(path).makeQualified(self._path(path)).toString())

    def can_rename(self, path: str) -> bool:
        return str(self._system(path).getUri().getScheme()) in _RENAMING_SCHEMES

    def exists(self, path: str) -> bool:
        return bool(self._system(path).exists(self._path(path)))

    def children(self, path: str) -> list[str]:
        """The names of what is in a directory, sorted; none when it does not exist."""
        system, there = self._system(path), self._path(path)
        if not system.exists(there):
            return []
        return sorted(str(one.getPath().getName()) for one in system.listStatus(there))

    def read(self, path: str) -> bytes | None:
        """A small file; None when it does not exist."""
        system, there = self._system(path), self._path(path)
        if not system.exists(there):
            return None
        stream = system.open(there)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        """Replaces what is there. On object stores the file is there whole or not at all."""
        stream = self._system(path).create(self._path(path), True)
        try:
            stream.write(content)
        finally:
            stream.close()

    def make_directory(self, path: str) -> None:
        self._system(path).mkdirs(self._path(path))

    def delete(self, path: str) -> None:
        """With all that is in it; absent is fine."""
        self._system(path).delete(self._path(path), True)

    def rename(self, source: str, target: str) -> None:
        """In one step; raises FileExistsError when the target is there already. Its parent must exist."""
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(self._path(target).toUri(), self._conf)
        no_options = self._gateway.new_array(getattr(fs, "Options$Rename"), 0)
        try:
            context.rename(self._path(source), self._path(target), no_options)
        except Exception as error:
            java = getattr(error, "java_exception", None)
            if java is not None and str(java.getClass().getName()) == _FILE_EXISTS:
                raise FileExistsError(target) from error
            raise

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)
