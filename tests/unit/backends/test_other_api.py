"""A GPU offered by two APIs: selection of the API, and fallback when the best has no compiler."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cuda_on_host import HostKernels, needs_compiler
from fake_cuda import FakeCuda
from imagined_gpu import forget_drivers
from small_networks import small_onnx

import fourfold
from fourfold.backends import backends, devices, discovery, find_device
from fourfold.backends.cuda import CudaBackend, nvrtc
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.image import Image
from fourfold.backends.interpreter import InterpretBackend
from fourfold.backends.interpreter import device as interpreted
from fourfold.cli import main
from fourfold.errors import DeviceError, InputError
from fourfold.plan import Program
from fourfold.store.prepared import Prepared
from fourfold.support import log

UUID = "00" * 16  # as reported by the fake driver
IMAGE = np.random.default_rng(3).uniform(-1, 1, (1, 3, 5, 6)).astype(np.float32)


def clear_caches() -> None:
    forget_drivers()
    for cached in (devices, nvrtc.libraries):
        cached.cache_clear()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """Yield one GPU offered by CUDA and the interpreter, without a CUDA compiler."""
    result = FakeCuda()
    for name in ("library", "quick_library"):
        monkeypatch.setattr(calls, name, lambda: result)
    monkeypatch.setattr(CudaBackend, "listed", True)
    monkeypatch.setattr(InterpretBackend, "listed", True)
    monkeypatch.setattr(type(backends()["opencl"]), "listed", False)
    same = replace(interpreted.PLAIN_GPU, uuid=UUID)
    monkeypatch.setattr(interpreted, "PLAIN_GPU", same)
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/nowhere/libnvrtc.so.13"]))
    monkeypatch.setattr(log, "_said", {})
    clear_caches()
    yield result
    clear_caches()


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return str(path)


def fake_build(program: Program, architecture: str) -> Image:
    """Return an image like one compiled with NVRTC."""
    return Image(architecture, "NVRTC 13.0", b"code", b"ptx")


def run(session: fourfold.Session) -> list[np.ndarray]:
    inputs = {session.inputs[0].name: IMAGE.reshape(session.inputs[0].shape)}
    return list(session.run(inputs).values())


@pytest.mark.usefixtures("driver")
def test_gpu_is_listed_once_with_its_other_address() -> None:
    (info,) = devices()
    assert (info.address, info.others) == ("cuda:0", ("interpret:0",))
    assert "cuda:0, also interpret:0" in CliRunner().invoke(main, ["devices"]).output.replace(
        "\n", " "
    )


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("expected", "address"),
    [
        ("auto", "cuda:0"),
        ("gpu", "cuda:0"),
        ("nvidia", "cuda:0"),
        ("imagined", "cuda:0"),
        (0, "cuda:0"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        ("interpret:0", "interpret:0"),
    ],
)
def test_names_select_the_best_api(expected: str | int, address: str) -> None:
    result = find_device(expected, compiles=False)
    assert (result.address, result.index) == (address, 0)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("expected", ["auto", "gpu", "nvidia", 0])
def test_compiling_selects_an_api_with_a_compiler(
    expected: str | int, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_device(expected).address == "interpret:0"
    assert "runs through interpret:0: CUDA kernels cannot be built" in caplog.text
    assert "pip install fourfold[cuda]" in caplog.text


@pytest.mark.usefixtures("driver")
def test_explicit_api_is_not_replaced() -> None:
    assert find_device("cuda").address == "cuda:0"
    assert find_device(find_device("cuda:0")).address == "cuda:0"


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("expected", ["auto", "gpu", 0])
def test_session_falls_back_to_the_api_with_a_compiler(
    expected: str | int, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    with fourfold.Session(model, device=expected, cache=None) as session:
        assert session.device.address == "interpret:0"
        results = run(session)
    with fourfold.Session(model, device="interpret", cache=None) as session:
        np.testing.assert_array_equal(results[0], run(session)[0])
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert "runs through interpret:0: CUDA kernels cannot be built" in line


@pytest.mark.usefixtures("driver")
def test_explicit_api_without_a_compiler_suggests_a_fix(model: str) -> None:
    with pytest.raises(DeviceError, match="NVRTC cannot be loaded") as caught:
        fourfold.Session(model, device="cuda", cache=None)
    assert "pip install fourfold[cuda]" in caught.value.fix


@needs_compiler
def test_prepared_file_needs_no_compiler(
    model: str, driver: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "build", fake_build)
        file = str(tmp_path / "small.fourfold")
        words = ["prepare", model, "-o", file, "--only-here", "--device", "cuda:sm_90"]
        words += ["--units", "1"]
        CliRunner().invoke(main, words, standalone_mode=False)
    prepared = Prepared.open(file)
    plan = prepared.model(prepared.best(0, fourfold.backends.probe(find_device("cuda:0")))).plan
    driver.images[b"code"] = HostKernels(plan.program, tmp_path)
    with fourfold.Session(file, device="gpu") as session:
        assert session.device.address == "cuda:0"
        results = run(session)
    with fourfold.Session(model, device="interpret", cache=None) as session:
        np.testing.assert_allclose(results[0], run(session)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("driver")
def test_file_for_the_other_api_runs_there(
    model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = str(tmp_path / "small.fourfold")
    words = ["prepare", model, "-o", file, "--only-here", "--device", "interpret:0"]
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert done.exception is None, done.output
    with fourfold.Session(file, device="gpu") as session:
        assert (session.device.address, session.origin) == ("interpret:0", "file")
        run(session)
    assert "can run on Imagined GPU" in caplog.text
    with pytest.raises(InputError, match="can run on Imagined GPU"):
        fourfold.Session(file, device="cuda:0")


@pytest.mark.usefixtures("driver")
def test_rejects_a_file_without_a_plan_for_any_api(model: str, tmp_path: Path) -> None:
    file = str(tmp_path / "small.fourfold")
    words = ["prepare", model, "-o", file, "--only-here", "--device", "opencl:0"]
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert done.exception is None, done.output
    with pytest.raises(InputError, match="can run on Imagined GPU"):
        fourfold.Session(file, device="gpu")


def test_finding_a_gpu_asks_only_the_best_api(
    driver: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers of other APIs are not loaded to find or number a GPU."""

    def asked(backend: object) -> None:
        pytest.fail("another API was asked")

    monkeypatch.setattr(InterpretBackend, "devices", asked)
    for expected in ("auto", "gpu", "nvidia", 0, "cuda", "cuda:0"):
        assert find_device(expected, compiles=False).address == "cuda:0"
    assert discovery.leading_devices()[0].index == 0
