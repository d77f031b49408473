"""`python -m tiergate_spark.shipping`: writes the zip for --py-files. What is in it is not decided here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tiergate_client.exit_codes import ExitCode
from tiergate_spark.shipping import write_package_zip

_PROGRAM: Final = "python -m tiergate_spark.shipping"
_ZIP_NAME: Final = "tiergate-spark.zip"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM, description="Write this package as a zip for spark-submit's --py-files, and tell where it is."
    )
    parser.add_argument(
        "path", nargs="?", type=Path, default=Path(_ZIP_NAME), metavar="ZIP", help=f"{_ZIP_NAME} when it is not named"
    )
    path: Path = parser.parse_args(arguments).path
    try:
        write_package_zip(path)
    except OSError as error:
        why = error.strerror.lower() if error.strerror else str(error)
        sys.stderr.write(f"{_PROGRAM}: {path} cannot be written: {why}; name another place\n")
        return ExitCode.FAILED
    sys.stdout.write(f"{path}\n")
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
