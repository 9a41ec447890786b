"""OpenCL implementations of this machine: detection, isolated use, and install commands of missing
ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

VENDORS = Path("/etc/OpenCL/vendors")
THREADS = (1, 2)


@dataclass(frozen=True)
class Kind:
    """An implementation that may be installed; its library's name contains `mark`. `threads` are
    environment variables for the number of threads; without any, processor affinity limits it.
    """

    name: str
    mark: str
    install: str
    threads: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Implementation:
    """An installed implementation. Its library is empty if the loader finds it on its own, as
    pyopencl finds the PoCL of PyPI.
    """

    name: str
    library: str
    kind: Kind

    def environment(self, scratch: Path, threads: int) -> dict[str, str]:
        """Return an environment with only this implementation and empty caches, with files in
        `scratch`.
        """
        vendors = scratch / "vendors"
        vendors.mkdir(parents=True)
        if self.library:
            (vendors / "only.icd").write_text(f"{self.library}\n", encoding="utf-8")
        caches = {name: str(scratch / name.lower()) for name in CACHES}
        for folder in caches.values():
            Path(folder).mkdir()
        counts = dict.fromkeys(self.kind.threads, str(threads))
        alone = {"OCL_ICD_VENDORS": str(vendors), LOG: str(scratch / "complaints")}
        return {**self.kind.environment, **caches, **counts, **alone}


CACHES = ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "CUDA_CACHE_PATH", "NEO_CACHE_DIR")
LOG = "OCLGRIND_LOG"
POCL = Kind(
    "PoCL",
    "libpocl",
    "apt-get install pocl-opencl-icd",
    threads=("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"),
)
POCL_OF_PYPI = "PoCL of PyPI"
RUSTICL = Kind(
    "rusticl",
    "librusticlopencl",
    "apt-get install mesa-opencl-icd",
    threads=("LP_NUM_THREADS",),
    environment={"RUSTICL_ENABLE": "llvmpipe", "RUSTICL_FEATURES": "fp16"},
)
INTEL = Kind("Intel", "libintelocl", "pip install intel-opencl-rt intel-cmplr-lib-rt")
# Its checker does not know the `freeze` instruction of its optimizer, and silently ends a kernel
# there. Therefore the optimizer is off.
OCLGRIND = Kind(
    "Oclgrind",
    "liboclgrind",
    "apt-get install oclgrind (Debian 12)",
    threads=("OCLGRIND_NUM_THREADS",),
    environment={
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_UNINITIALIZED": "1",
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    },
)
KINDS = (POCL, RUSTICL, INTEL, OCLGRIND)


def installed(vendors: Path | None = None) -> list[Implementation]:
    """Return every installed implementation once."""
    libraries = (*_listed(vendors or _vendors()), *_of_wheels(), *_of_oclgrind())
    results = [_named(library) for library in dict.fromkeys(libraries)]
    if _files("pocl-binary-distribution", "libpocl"):
        results.insert(0, Implementation(POCL_OF_PYPI, "", POCL))
    return results


def missing(found: Iterable[Implementation]) -> dict[str, str]:
    """Return the missing implementations with their install commands."""
    names = {one.name for one in found}
    commands = {kind.name: kind.install for kind in KINDS}
    commands[POCL_OF_PYPI] = "pip install pyopencl pocl-binary-distribution"
    return {name: command for name, command in commands.items() if name not in names}


def _named(library: str) -> Implementation:
    file = Path(library).name
    kind = next((kind for kind in KINDS if kind.mark in file.lower()), None)
    kind = kind or Kind(file.removeprefix("lib").partition(".so")[0], file, "")
    return Implementation(kind.name, library, kind)


def _vendors() -> Path:
    """Return the folder where the system, or the environment, lists drivers."""
    folder = Path(os.environ.get("OCL_ICD_VENDORS", ""))
    return folder if folder.is_absolute() and folder.is_dir() else VENDORS


def _listed(vendors: Path) -> Iterator[str]:
    for file in sorted(vendors.glob("*.icd")):
        yield file.read_text(encoding="utf-8").strip()


def _of_wheels() -> list[str]:
    """Find Intel's wheel, which has no .icd file with its location."""
    return [str(path) for path in _files("intel-opencl-rt", "libintelocl.so")[:1]]


def _of_oclgrind() -> list[str]:
    """Find the driver of Debian's package, which is not listed anywhere."""
    command = shutil.which("oclgrind")
    if command is None:
        return []
    folder = Path(command).resolve().parents[1] / "lib" / "oclgrind"
    return [str(path) for path in sorted(folder.glob("liboclgrind-rt-icd.so"))]


def _files(package: str, start: str) -> list[Path]:
    """Return files of an installed package with this prefix; shortest names first."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return []
    result = (Path(str(file.locate())).resolve() for file in files if file.name.startswith(start))
    return sorted((path for path in result if path.is_file()), key=lambda path: len(path.name))
