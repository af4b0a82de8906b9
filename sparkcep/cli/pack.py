"""Packs the package into an archive that executors unpack: for clusters whose machines have numba, pyarrow and sqlglot, but not
sparkcep (docs/cluster.md).

Compiled kernels of these sources go with it. A kernel is loaded where versions and processor are those for which it was compiled;
elsewhere it counts as absent.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from sparkcep.version import __version__

FOLDER = "sparkcep_pack"  # below an executor's working folder
_PACKAGE = Path(__file__).parents[1]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal contents give equal archives


def pack(output: Path) -> tuple[int, int]:
    """Writes the archive; the numbers of its files of the package and of kernels."""
    files = {f"sparkcep/{path.relative_to(_PACKAGE).as_posix()}": path for path in _of_the_package()}
    kernels = {f"sparkcep/shipped/kernels/{path.parent.name}/{path.name}": path for path in _kernels()}
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted((files | kernels).items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(files), len(kernels)


def settings(output: Path) -> dict[str, str]:
    """What to set for a session so that its executors take the package from the archive."""
    return {"spark.archives": f"{output}#{FOLDER}", "spark.executorEnv.PYTHONPATH": f"./{FOLDER}"}


def usual_name() -> str:
    return f"sparkcep-{__version__}.zip"


def _of_the_package() -> Iterator[Path]:
    for path in sorted(_PACKAGE.rglob("*")):
        parts = path.relative_to(_PACKAGE).parts
        if path.is_file() and "__pycache__" not in parts and parts[:2] != ("shipped", "kernels"):
            yield path


def _modules(name: str) -> Iterator[str]:
    """The modules of the package whose last name this is, imported."""
    for path in _PACKAGE.rglob(f"{name}.py"):
        module = ".".join((_PACKAGE.name, *path.relative_to(_PACKAGE).with_suffix("").parts))
        import_module(module)
        yield module


def _kernels() -> Iterator[Path]:
    """The compiled kernels whose sources are those of this package."""
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
