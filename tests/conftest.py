"""Devices as parameters: a test that asks for `device` runs on this environment's PoCL, whatever
else the machine has, and on those that its module has as INTERPRETED; or on --device NAME alone.
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

NO_DRIVERS = Path(__file__).parent  # a folder that has none
SOURCES = NO_DRIVERS.parent / "src"
BUILD_FLAGS = "POCL_EXTRA_BUILD_FLAGS"  # what PoCL adds to the options of every build
# PoCL's limits come from how much memory a virtual machine has just now; processes of one test are
# to be told the same. In GiB.
POCL_MEMORY = ("POCL_MEMORY_LIMIT", "3")
# Tests that --quick-builds leaves alone: each op's cases as this device has them, and whole models
# beside their own runtimes.
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
    help_text = "run device tests on this device only, or on 'all'; else on this environment's PoCL"
    parser.addoption("--device", default=None, help=help_text)
    help_text = (
        "have PoCL optimise kernels of ops' cases and whole models only, to build in half the time"
    )
    parser.addoption("--quick-builds", action="store_true", help=help_text)
    help_text = "seconds for which threads share sessions in the slow form of tests/soak"
    parser.addoption("--soak", default=600.0, type=float, help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    os.environ["FOURFOLD_CACHE"] = "none"  # tests keep nothing unless they say where
    os.environ.setdefault(*POCL_MEMORY)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = [str(SOURCES), *filter(None, before)]  # processes that tests start import the same
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    wanted = config.getoption("--device")
    if wanted is None and has_pocl():
        os.environ["OCL_ICD_VENDORS"] = str(NO_DRIVERS)  # the loader finds PoCL beside itself
        os.environ.pop("OCL_ICD_FILENAMES", None)
    found = chosen(wanted)[0]
    if wanted != "all" and found:  # what opens a session without a word takes the same
        os.environ["FOURFOLD_DEVICE"] = found[0].address


def has_pocl() -> bool:
    """Whether PoCL was installed into this environment, where only pyopencl's loader sees it."""
    found = find_spec("pyopencl")
    places = (found and found.submodule_search_locations) or ()
    return any(file for place in places for file in Path(place, ".libs").glob("*pocl*.icd"))


@cache
def chosen(wanted: str | None) -> tuple[tuple[DeviceInfo, ...], str]:
    """The devices that tests run on; where there is none, the reason."""
    try:
        found = devices() if wanted == "all" else (find_device(wanted or "auto"),)
    except DeviceError as error:
        if wanted is not None:
            raise pytest.UsageError(str(error)) from error
        return (), f"{error.what}, because {error.why}; {error.fix}"
    return tuple(with_run_facts(probe(info, quantised=True)) for info in found), ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--device")
        found = chosen(wanted)[0]
        if wanted is None:
            found += getattr(metafunc.module, "INTERPRETED", ())
        for mark in metafunc.definition.iter_markers("devices"):
            found = tuple(info for info in found if mark.kwargs["takes"](info))
        if not chosen(wanted)[0]:
            metafunc.parametrize("device", [None], ids=["none"], scope="session")
        else:
            names = [short_name(info) for info in found]
            metafunc.parametrize("device", found, ids=names, scope="session")


def short_name(info: DeviceInfo) -> str:
    return "-".join(info.name.replace(",", "").split()[:2])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a device, what needs one is left out."""
    if not chosen(config.getoption("--device"))[0]:
        lost = [item for item in items if needs_device(item)]
        items[:] = [item for item in items if not needs_device(item)]
        config.hook.pytest_deselected(items=lost)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """PoCL's optimiser takes most of a build, and most tests ask what a kernel means, not how good
    its code is: forms for GPUs, of which PoCL plays none for users, the store, files, commands.
    """
    if item.config.getoption("--quick-builds"):
        os.environ[BUILD_FLAGS] = "" if item.nodeid.startswith(OPTIMISED) else "-cl-opt-disable"


@pytest.fixture(autouse=True)
def own_custom_ops() -> Iterator[None]:
    """Ops that a test registers are its own: they are in the keys of what is kept."""
    before = dict(CUSTOM_OPS)
    yield
    CUSTOM_OPS.clear()
    CUSTOM_OPS.update(before)


@pytest.fixture(autouse=True)
def compilers_as_before() -> Iterator[None]:
    """A test that imagines a GPU and changes more within has to undo that within: undone later, it
    would bring the imagined compiler back, for whichever test comes next.
    """
    before = dict(vars(nvrtc))
    yield
    assert vars(nvrtc) == before


def needs_device(item: pytest.Item) -> bool:
    asked = getattr(item, "callspec", None)
    one_is_missing = asked is not None and asked.params.get("device", item) is None
    return one_is_missing or item.get_closest_marker("needs_device") is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reason = chosen(terminalreporter.config.getoption("--device"))[1]
    if reason:
        line = f"tests that need a device were left out: {reason}"
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture
def cuda(request: pytest.FixtureRequest) -> Iterator[DeviceInfo]:
    """A GPU by CUDA: that of --device, else an imagined one, whose kernels the host runs."""
    wanted = request.config.getoption("--device") or ""
    if wanted.startswith("cuda"):
        yield find_device(wanted)
        return
    if COMPILER is None:
        pytest.skip("there is no GPU by CUDA, and no C++ compiler to imagine one")
    with imagined_gpu(FakeCuda(count=2)):
        yield find_device("cuda:0")
