"""Our own modules for workers that have not installed them, as one archive.

What we need from others must be there: httpx, msgspec and pyarrow. Batches and table functions work
so; a stream does not, because Spark plans streams without what a session has shipped. To install
the package where the workers run is the better way; this one is for trying things out.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import lochan
from lochan.base.errors import Invalid

# Archives are equal when their contents are, so that Spark knows one that it has already.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)

# Directories are removed with what is here, at the end of the process.
_folders: Final[list[tempfile.TemporaryDirectory[str]]] = []


def ship(spark: SparkSession) -> None:
    """Hands our modules to the workers of a session; again and again does no harm."""
    spark.addArtifacts(str(_archive(os.getpid())), pyfile=True)


@lru_cache(maxsize=1)
def _archive(_process: int) -> Path:
    """Returns the archive, which stays as long as this process: workers that begin later read it.

    Through Connect it is sent to the server at once; else workers get it from where it lies.
    """
    _folders.append(tempfile.TemporaryDirectory(prefix="lochan-ship-"))
    return _pack(Path(_folders[-1].name))


def _pack(folder: Path) -> Path:
    """Writes the archive; its name has a digest of its contents, as Spark never replaces one."""
    package = Path(lochan.__file__).parent
    files = sorted(package.rglob("*.py"))
    if not files:
        raise Invalid(f"there are no sources to ship in {package}; install lochan on the workers")
    digest = sha256()
    unnamed = folder / "lochan.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in files:
            name, text = str(each.relative_to(package.parent)), each.read_bytes()
            digest.update(name.encode() + b"\0" + text + b"\0")
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), text)
    return unnamed.rename(folder / f"lochan-{digest.hexdigest()[:16]}.zip")
