"""Packs the package into an archive that executors unpack (docs/cluster.md).

``sparkcep pack`` uses it. The archive is for clusters whose machines have numba, pyarrow and sqlglot, but not sparkcep. The archive
includes the compiled kernels of these sources. A kernel is loaded if versions and processor are those it was compiled for;
otherwise it counts as missing.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

from sparkcep.version import __version__

FOLDER = "sparkcep_pack"  # in an executor's working folder
_PACKAGE = Path(__file__).parents[1]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal contents give equal archives


def pack(output: Path) -> tuple[int, int]:
    """Writes the archive. Returns the number of package files and of kernels in it."""
    files = {f"sparkcep/{path.relative_to(_PACKAGE).as_posix()}": path for path in _of_the_package()}
    kernels = {f"sparkcep/shipped/kernels/{path.parent.name}/{path.name}": path for path in _kernels()}
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted((files | kernels).items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(files), len(kernels)


def settings(output: Path) -> dict[str, str]:
    """Returns the settings of a session whose executors take the package from the archive. Spark reads its path as a URL."""
    return {"spark.archives": f"{quote(output.as_posix())}#{FOLDER}", "spark.executorEnv.PYTHONPATH": f"./{FOLDER}"}


def usual_name() -> str:
    return f"sparkcep-{__version__}.zip"


def _of_the_package() -> Iterator[Path]:
    for path in sorted(_PACKAGE.rglob("*")):
        parts = path.relative_to(_PACKAGE).parts
        if path.is_file() and "__pycache__" not in parts and parts[:2] != ("shipped", "kernels"):
            yield path


def _modules(name: str) -> Iterator[str]:
    """Imports the package's modules with this last name, and yields their full names."""
    for path in _PACKAGE.rglob(f"{name}.py"):
        module = ".".join((_PACKAGE.name, *path.relative_to(_PACKAGE).with_suffix("").parts))
        import_module(module)
        yield module


def _kernels() -> Iterator[Path]:
    """Yields the compiled kernels whose sources are those of this package."""
    from sparkcep.kernels.jit import cache

    seen = set()
    for place in (cache.SHIPPED, *cache.places()):
        for folder in sorted(place.glob("*-*")):
            module, _, digest = folder.name.rpartition("-")
            if digest in (cache.digest(name) for name in _modules(module)):
                for path in sorted(folder.glob("*.nbc")):
                    if (folder.name, path.name) not in seen:
                        seen.add((folder.name, path.name))
                        yield path
