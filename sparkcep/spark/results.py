"""Results written to one file, for the command line."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sparkcep.errors import ToolError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# by the ending of a path
FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}


class ResultError(ToolError):
    """A result that cannot be written there. The message says what to write."""


def checked(path: str, given: str) -> None:
    """Raises ResultError where no result can be written to the path; ``given`` is what the user wrote before it."""
    if Path(path).suffix not in FORMATS:
        raise ResultError(f"{given} {path}: the name must end in {', '.join(FORMATS)}")
    if not Path(path).resolve().parent.is_dir():
        raise ResultError(f"{given} {path}: there is no folder for it")
    if Path(path).is_dir():
        raise ResultError(f"{given} {path}: this is a folder")


def write(frame: DataFrame, path: str) -> None:
    """Writes all rows of the frame to one file, whose format its name says."""
    with tempfile.TemporaryDirectory(dir=Path(path).resolve().parent, prefix=".sparkcep-") as folder:
        frame.coalesce(1).write.mode("overwrite").format(FORMATS[Path(path).suffix]).option("header", True).save(folder)
        (part,) = Path(folder).glob("part-*")
        part.replace(path)
