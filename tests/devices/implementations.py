"""The OpenCL implementations of this machine: who they are, how each is used alone, and how those
that are missing are installed.
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
    """What is known of an implementation before it is found: its library's name has `mark` in it.

    `threads` are the variables that set how many threads it computes with; one that has none is
    kept to as many processors.
    """

    name: str
    mark: str
    install: str
    threads: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Implementation:
    """An implementation that is installed. Its library is empty where the loader finds it without
    being told, as pyopencl's finds the PoCL of PyPI.
    """

    name: str
    library: str
    kind: Kind

    def environment(self, scratch: Path, threads: int) -> dict[str, str]:
        """This one alone, with caches of its own that are empty; files for that go to `scratch`."""
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
# Its own checks do not know an instruction (`freeze`) that its optimiser puts in, and end a kernel
# there without an error: hence no optimiser.
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
    """Every implementation that is found, each once."""
    places = (*_listed(vendors or _vendors()), *_of_wheels(), *_of_oclgrind())
    found = [_named(library) for library in dict.fromkeys(places)]
    if _files("pocl-binary-distribution", "libpocl"):
        found.insert(0, Implementation(POCL_OF_PYPI, "", POCL))
    return found


def missing(found: Iterable[Implementation]) -> dict[str, str]:
    """Those known that are not there, each with the command that installs it."""
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
    """Where the system lists its drivers, or whoever started this process."""
    told = Path(os.environ.get("OCL_ICD_VENDORS", ""))
    return told if told.is_absolute() and told.is_dir() else VENDORS


def _listed(vendors: Path) -> Iterator[str]:
    for file in sorted(vendors.glob("*.icd")):
        yield file.read_text(encoding="utf-8").strip()


def _of_wheels() -> list[str]:
    """Intel's wheel has no .icd file that names where it was installed."""
    return [str(path) for path in _files("intel-opencl-rt", "libintelocl.so")[:1]]


def _of_oclgrind() -> list[str]:
    """Debian's package brings a driver and lists it nowhere."""
    command = shutil.which("oclgrind")
    if command is None:
        return []
    folder = Path(command).resolve().parents[1] / "lib" / "oclgrind"
    return [str(path) for path in sorted(folder.glob("liboclgrind-rt-icd.so"))]


def _files(package: str, start: str) -> list[Path]:
    """Files of an installed package whose names begin so; shortest names first."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return []
    found = (Path(str(file.locate())).resolve() for file in files if file.name.startswith(start))
    return sorted((path for path in found if path.is_file()), key=lambda path: len(path.name))
