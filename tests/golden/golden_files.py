"""Golden files: renewed, or listed if they differ. A program of golden files ends with ``sys.exit(renew(...))``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


def renew(files: Iterable[Path], folder: Path, now: Callable[[str], str], what: str, write: bool, same: Callable[[str, str], bool] = str.__eq__) -> int:
    """Writes the files whose text is another one now, or lists them.

    Args:
        folder: the one below which paths are shown.
        now: gives a file's present text, from the one that it has.
        what: the files hold, in the plural.
        same: whether two texts are equal.

    Returns:
        1 if some differ that were not written, else 0.
    """
    different = []
    for path in files:
        text = path.read_text("utf-8")
        renewed = now(text)
        if not same(renewed, text):
            different.append(path)
            if write:
                path.write_text(renewed, "utf-8")
    done = "written" if write else "different"
    print("\n".join(f"{done}: {path.relative_to(folder)}" for path in different) or f"all {what} are as they were")
    return int(bool(different) and not write)
