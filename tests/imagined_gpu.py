"""A fake CUDA GPU: a fake driver, with the host's compiler for its code."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest
from cuda_on_host import HostKernels
from fake_cuda import FakeCuda

from fourfold.backends.cuda import devices as found
from fourfold.backends.cuda import nvrtc
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.image import Image
from fourfold.plan import Program

_built: dict[str, HostKernels] = {}


def forget_drivers() -> None:
    """Clear the caches of drivers."""
    gc.collect()
    found.found_devices.cache_clear()
    found.forget_contexts()


@contextmanager
def installed(driver: FakeCuda) -> Iterator[FakeCuda]:
    """Install a driver for the duration of the context."""
    forget_drivers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "library", lambda: driver)
        patch.setattr(calls, "quick_library", lambda: driver)
        yield driver
        forget_drivers()


@contextmanager
def imagined_gpu(driver: FakeCuda) -> Iterator[FakeCuda]:
    """Install a driver together with a fake NVRTC that builds host code."""

    def build(program: Program, architecture: str) -> Image:
        code = sha256(program.text.encode()).hexdigest()
        if code not in _built:
            _built[code] = HostKernels(program, Path(mkdtemp()))
        driver.images[code.encode()] = _built[code]
        return Image(architecture, "the host's compiler", code.encode(), b"ptx")

    with installed(driver), pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "build", build)
        patch.setattr(nvrtc, "build_parts", lambda program, architecture: [])
        patch.setattr(nvrtc, "known_architecture", lambda architectures: architectures[0])
        yield driver
