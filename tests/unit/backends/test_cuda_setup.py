"""Broken CUDA setups with real shared libraries: each error suggests a fix."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL, c_int
from functools import cache
from pathlib import Path

import pytest
from cuda_on_host import COMPILER
from imagined_gpu import forget_drivers

from fourfold.backends import find_device
from fourfold.backends.cuda import driver, nvrtc
from fourfold.backends.cuda.binding import calls
from fourfold.errors import DeviceError
from fourfold.plan import Program

pytestmark = pytest.mark.skipif(COMPILER is None, reason="this machine has no C++ compiler")
EMPTY = Program("", "")

DRIVER = """
extern "C" {
int status = 0, version = 12040;
int cuInit(unsigned) { return status; }
int cuDeviceGetCount(int *count) { *count = 0; return 0; }
int cuDriverGetVersion(int *found) { *found = version; return 0; }
}
"""
COMPILERS = """
#include <cstring>
static const char said[] = "failed to open libnvrtc-builtins.so.13.4";
extern "C" {
int status = 0;
int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = MINOR; return 0; }
int nvrtcCreateProgram(void **made, const char *, const char *, int, void *, void *) { return 0; }
int nvrtcCompileProgram(void *, int, const char **) { return status; }
int nvrtcDestroyProgram(void **) { return 0; }
int nvrtcGetProgramLogSize(void *, size_t *size) { *size = sizeof said; return 0; }
int nvrtcGetProgramLog(void *, char *log) { std::memcpy(log, said, sizeof said); return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 1; return 0; }
int nvrtcGetSupportedArchs(int *known) { *known = 90; return 0; }
const char *nvrtcGetErrorString(int) { return "NVRTC_ERROR"; }
}
"""


def build_library(folder: Path, name: str, text: str = "", *options: str) -> Path:
    """Compile the text to a shared library."""
    source, library = folder / f"{name}.cpp", folder / name
    source.write_text(text)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source, *options], check=True)
    return library


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a driver library without GPUs, whose status a test can set."""
    return build_library(tmp_path_factory.mktemp("driver"), "libcuda.so.1", DRIVER)


@pytest.fixture(scope="module")
def fake_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a complete compiler of version 19.5, whose status a test can set."""
    return build_compiler(tmp_path_factory.mktemp("compiler"), 19, 5, "19.5")


@contextmanager
def with_answer(library: Path, name: str, value: int) -> Iterator[Path]:
    """Set a variable of the library for the duration of the context."""
    result = c_int.in_dll(CDLL(str(library)), name)
    before, result.value = result.value, value
    yield library
    result.value = before


Install = Callable[[Path | str], None]


@pytest.fixture
def install_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that makes a file the machine's driver library for one test."""

    def install(path: Path | str) -> None:
        monkeypatch.setattr(driver, "_NAMES", (str(path),))
        monkeypatch.setattr(driver, "library_name", cache(driver.library_name.__wrapped__))
        monkeypatch.setattr(calls, "library_name", driver.library_name)
        for name in ("library", "quick_library"):
            monkeypatch.setattr(calls, name, cache(getattr(calls, name).__wrapped__))
        forget_drivers()

    yield install
    forget_drivers()


@pytest.fixture
def install_compilers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes files the machine's only compilers for one test."""

    def install(*paths: Path | str) -> None:
        monkeypatch.setattr(nvrtc, "libraries", cache(nvrtc.libraries.__wrapped__))
        monkeypatch.setattr(nvrtc, "_candidates", lambda: map(str, paths))

    return install


def check_message(caught: pytest.ExceptionInfo[DeviceError], *words: str) -> None:
    """Check that what, why and fix contain the given words."""
    parts = (caught.value.what, caught.value.why, caught.value.fix)
    assert all(word in part for word, part in zip(words, parts, strict=True)), parts


def test_reports_a_missing_driver(install_driver: Install) -> None:
    install_driver("libcuda-that-is-nowhere.so.1")
    with pytest.raises(DeviceError) as caught:
        find_device("cuda")
    check_message(caught, "driver is not installed", "cannot open", "install NVIDIA's driver")
    assert not driver.is_installed()


def test_reports_a_driver_file_that_is_no_library(install_driver: Install, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("truncated by an interrupted update")
    install_driver(tmp_path / "libcuda.so.1")
    with pytest.raises(DeviceError) as caught:
        find_device("cuda")
    check_message(caught, "driver is not installed", "libcuda.so.1", "install NVIDIA's driver")


def test_reports_another_library_in_place_of_the_driver(
    install_driver: Install, tmp_path: Path
) -> None:
    install_driver(build_library(tmp_path, "libcuda.so.1"))
    with pytest.raises(DeviceError) as caught:
        find_device("cuda")
    check_message(caught, "not NVIDIA's, or too old", "cuInit", "update NVIDIA's driver")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (34, ("does not start", "stub", "LD_LIBRARY_PATH")),
        (100, ("no CUDA device", "no CUDA device", "CUDA_VISIBLE_DEVICES")),
        (802, ("does not start", "not ready", "nvidia-fabricmanager")),
        (803, ("does not start", "do not match", "reboot")),
        (804, ("does not start", "newer than its driver", "compat")),
        (999, ("does not start", "unknown error (999)", "nvidia-smi")),
    ],
)
def test_reports_a_driver_that_does_not_start(
    install_driver: Install, fake_driver: Path, status: int, words: tuple[str, str, str]
) -> None:
    install_driver(fake_driver)
    with with_answer(fake_driver, "status", status), pytest.raises(DeviceError) as caught:
        find_device("cuda")
    check_message(caught, *words)


def test_reports_a_driver_that_is_too_old(install_driver: Install, fake_driver: Path) -> None:
    install_driver(fake_driver)
    with with_answer(fake_driver, "version", 11030), pytest.raises(DeviceError) as caught:
        find_device("cuda")
    check_message(caught, "too old", "CUDA 11.3, but 11.4 is required", "update NVIDIA's driver")


def build_compiler(folder: Path, major: int, minor: int, builtins: str = "") -> Path:
    """Build a compiler of this version in a folder of its own, with builtins of a version."""
    folder /= f"nvrtc{major}.{minor}"
    folder.mkdir()
    if builtins:
        build_library(folder, f"libnvrtc-builtins.so.{builtins}")
    version = (f"-DMAJOR={major}", f"-DMINOR={minor}")
    return build_library(folder, f"libnvrtc.so.{major}", COMPILERS, *version)


def test_reports_a_missing_compiler(install_compilers: Callable[..., None], tmp_path: Path) -> None:
    install_compilers()
    with pytest.raises(DeviceError) as caught:
        nvrtc.libraries()
    check_message(caught, "NVRTC cannot be loaded", "not found", "pip install fourfold[cuda]")
    (tmp_path / "libnvrtc.so.13").write_text("a download was broken off here")
    install_compilers(tmp_path / "libnvrtc.so.13")
    with pytest.raises(DeviceError) as caught:
        nvrtc.libraries()
    check_message(caught, "NVRTC cannot be loaded", "libnvrtc.so.13", "pip install fourfold[cuda]")


def test_reports_another_library_in_place_of_the_compiler(
    install_compilers: Callable[..., None], tmp_path: Path
) -> None:
    install_compilers(build_library(tmp_path, "libnvrtc.so.13"))
    with pytest.raises(DeviceError) as caught:
        nvrtc.libraries()
    check_message(caught, "NVRTC cannot be loaded", "nvrtcVersion", "pip install fourfold[cuda]")


def test_reports_a_compiler_that_is_too_old(
    install_compilers: Callable[..., None], tmp_path: Path
) -> None:
    install_compilers(build_compiler(tmp_path, 11, 0, "11.0"))
    with pytest.raises(DeviceError) as caught:
        nvrtc.libraries()
    check_message(caught, "NVRTC cannot be loaded", "NVRTC 11.0, but 11.2 is required", "--upgrade")


def test_skips_a_compiler_with_builtins_of_another_version(
    install_compilers: Callable[..., None], tmp_path: Path
) -> None:
    """Another complete compiler is used instead."""
    mixed = build_compiler(tmp_path, 19, 7, "19.8")
    install_compilers(mixed)
    with pytest.raises(DeviceError) as caught:
        nvrtc.libraries()
    check_message(
        caught, "NVRTC cannot be loaded", "libnvrtc-builtins.so.19.7", "--force-reinstall"
    )
    install_compilers(mixed, build_compiler(tmp_path, 19, 6, "19.6"))
    assert [one.name for one in nvrtc.libraries()] == ["NVRTC 19.6"]


@pytest.mark.parametrize(
    ("status", "fix"),
    [(1, "out of memory"), (5, "--upgrade"), (7, "--force-reinstall"), (11, "pip")],
)
def test_reports_a_compiler_that_fails(
    install_compilers: Callable[..., None], fake_compiler: Path, status: int, fix: str
) -> None:
    """The compiler's own message is included."""
    install_compilers(fake_compiler)
    with with_answer(fake_compiler, "status", status), pytest.raises(DeviceError) as caught:
        nvrtc.build(EMPTY, "sm_90")
    check_message(caught, "NVRTC 19.5 failed", "failed to open libnvrtc-builtins.so.13.4", fix)
    assert str(fake_compiler) in caught.value.why
