"""Files wherever Spark can write: those of Hadoop's file systems, as the driver sees them."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

# Renames a directory in one step that everybody sees; object stores copy and delete instead.
_RENAMING_SCHEMES: Final = frozenset(("file", "hdfs", "viewfs", "ofs", "o3fs", "maprfs"))
_ERRORS: Final = {
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "java.io.FileNotFoundException": FileNotFoundError,
}


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

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and bool(self._system(path).getFileStatus(self._path(path)).isDirectory())

    def children(self, path: str) -> list[str]:
        """The names of what is in a directory, sorted; none when it does not exist."""
        system, there = self._system(path), self._path(path)
        if not system.exists(there):
            return []
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(system.listStatus(there))
        return sorted(path.rpartition("/")[2] for path in self._texts(paths))

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
        """In one step; raises FileExistsError and FileNotFoundError. The target's parent must exist."""
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(self._path(target).toUri(), self._conf)
        no_options = self._gateway.new_array(getattr(fs, "Options$Rename"), 0)
        try:
            context.rename(self._path(source), self._path(target), no_options)
        except Exception as error:
            java = getattr(error, "java_exception", None)
            known = None if java is None else _ERRORS.get(str(java.getClass().getName()))
            if known is not None:
                raise known(f"{source} to {target}") from error
            raise

    def _texts(self, array: Any) -> list[str]:
        """By a few calls of the JVM, not by some for each: an export may have thousands of ranges."""
        objects = self._gateway.new_array(self._jvm.java.lang.Object, len(array))  # py4j takes no other for Object[]
        self._jvm.java.lang.System.arraycopy(array, 0, objects, 0, len(array))
        text = str(self._jvm.org.apache.commons.lang3.StringUtils.join(objects, "\n"))
        return text.split("\n") if text else []

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)
