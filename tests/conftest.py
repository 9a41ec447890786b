"""Pytest configuration with devices as parameters.

A test with a `device` parameter runs on the PoCL of this environment and on the devices that its
module lists as INTERPRETED, or only on --device NAME.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from cuda_on_host import COMPILER
from fake_cuda import FakeCuda
from imagined_gpu import imagined_gpu

from fourfold.backends import devices, find_device, probe, with_run_facts
from fourfold.backends.cuda import nvrtc
from fourfold.custom import CUSTOM_OPS
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError

NO_DRIVERS = Path(__file__).parent  # a folder without drivers
SOURCES = NO_DRIVERS.parent / "src"
BUILD_FLAGS = "POCL_EXTRA_BUILD_FLAGS"  # options that PoCL adds to every build
# PoCL derives limits from the free memory of a virtual machine; all processes of a test must see
# the same. In GiB.
POCL_MEMORY = ("POCL_MEMORY_LIMIT", "3")
# Tests that ignore --quick-builds: cases of each op on this device, and comparisons of models with
# other runtimes.
OPTIMISED = (
    "tests/ops/test_ops.py::test_cases[",
    "tests/models/test_caffe_and_paddle.py",
    "tests/models/test_mixed_inputs.py",
    "tests/models/test_onnx_models.py",
    "tests/models/test_placement.py",
    "tests/models/test_quantized_models.py",
)


hypothesis.settings.register_profile("untimed", deadline=None)  # machines may be busy
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "device for the tests, or 'all' (default: the PoCL of this environment)"
    parser.addoption("--device", default=None, help=help_text)
    help_text = "let PoCL optimize only kernels of op cases and models, which halves build times"
    parser.addoption("--quick-builds", action="store_true", help=help_text)
    help_text = "duration of the slow thread tests in tests/soak, in seconds"
    parser.addoption("--soak", default=600.0, type=float, help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    os.environ["FOURFOLD_CACHE"] = "none"  # tests cache nothing unless they set a folder
    os.environ.setdefault(*POCL_MEMORY)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(SOURCES), *filter(None, before)]  # child processes import the same package
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    expected = config.getoption("--device")
    if expected is None and has_pocl():
        os.environ["OCL_ICD_VENDORS"] = str(NO_DRIVERS)  # the loader finds PoCL next to itself
        os.environ.pop("OCL_ICD_FILENAMES", None)
    result = chosen(expected)[0]
    if expected != "all" and result:  # sessions without a device option use the same device
        os.environ["FOURFOLD_DEVICE"] = result[0].address


def has_pocl() -> bool:
    """Return True if PoCL is installed in this environment, where only pyopencl's loader
    finds it.
    """
    result = find_spec("pyopencl")
    folders = (result and result.submodule_search_locations) or ()
    return any(file for place in folders for file in Path(place, ".libs").glob("*pocl*.icd"))


@cache
def chosen(wanted: str | None) -> tuple[tuple[DeviceInfo, ...], str]:
    """Return the devices that tests run on, and the reason if there are none."""
    try:
        result = devices() if wanted == "all" else (find_device(wanted or "auto"),)
    except DeviceError as error:
        if wanted is not None:
            raise pytest.UsageError(str(error)) from error
        return (), f"{error.what}, because {error.why}; {error.fix}"
    return tuple(with_run_facts(probe(info, quantised=True)) for info in result), ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        expected = metafunc.config.getoption("--device")
        result = chosen(expected)[0]
        if expected is None:
            result += getattr(metafunc.module, "INTERPRETED", ())
        for mark in metafunc.definition.iter_markers("devices"):
            result = tuple(info for info in result if mark.kwargs["takes"](info))
        if not chosen(expected)[0]:
            metafunc.parametrize("device", [None], ids=["none"], scope="session")
        else:
            names = [short_name(info) for info in result]
            metafunc.parametrize("device", result, ids=names, scope="session")


def short_name(info: DeviceInfo) -> str:
    return "-".join(info.name.replace(",", "").split()[:2])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need a device if there is none."""
    if not chosen(config.getoption("--device"))[0]:
        lost = [item for item in items if needs_device(item)]
        items[:] = [item for item in items if not needs_device(item)]
        config.hook.pytest_deselected(items=lost)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Disable PoCL's optimizer for most tests. It takes most of the build time, and these tests
    check the meaning of a kernel, not its speed: GPU kernels, the cache, files and commands.
    """
    if item.config.getoption("--quick-builds"):
        os.environ[BUILD_FLAGS] = "" if item.nodeid.startswith(OPTIMISED) else "-cl-opt-disable"


@pytest.fixture(autouse=True)
def own_custom_ops() -> Iterator[None]:
    """Remove ops that a test registered: they are part of cache keys."""
    before = dict(CUSTOM_OPS)
    yield
    CUSTOM_OPS.clear()
    CUSTOM_OPS.update(before)


@pytest.fixture(autouse=True)
def compilers_as_before() -> Iterator[None]:
    """Check that no fake compiler stays installed. A test that patches more while a fake GPU is
    installed must undo it before the GPU is removed; undone later, it would restore the fake
    compiler for the next test.
    """
    before = dict(vars(nvrtc))
    yield
    assert vars(nvrtc) == before


def needs_device(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    one_is_missing = callspec is not None and callspec.params.get("device", item) is None
    return one_is_missing or item.get_closest_marker("needs_device") is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reason = chosen(terminalreporter.config.getoption("--device"))[1]
    if reason:
        line = f"tests that need a device were left out: {reason}"
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture
def cuda(request: pytest.FixtureRequest) -> Iterator[DeviceInfo]:
    """Yield a CUDA GPU: that of --device, or a fake one whose kernels run on the host."""
    expected = request.config.getoption("--device") or ""
    if expected.startswith("cuda"):
        yield find_device(expected)
        return
    if COMPILER is None:
        pytest.skip("there is no GPU by CUDA, and no C++ compiler to imagine one")
    with imagined_gpu(FakeCuda(count=2)):
        yield find_device("cuda:0")
