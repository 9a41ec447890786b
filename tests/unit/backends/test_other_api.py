"""A GPU that two APIs offer: who plays on it, and who does where the best lacks a compiler."""

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

UUID = "00" * 16  # what the imagined driver says
PICTURE = np.random.default_rng(3).uniform(-1, 1, (1, 3, 5, 6)).astype(np.float32)


def forget() -> None:
    forget_drivers()
    for cached in (devices, nvrtc.libraries):
        cached.cache_clear()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """One GPU, which CUDA offers and the interpreter, too; there is no compiler for CUDA."""
    made = FakeCuda()
    for name in ("library", "quick_library"):
        monkeypatch.setattr(calls, name, lambda: made)
    monkeypatch.setattr(CudaBackend, "listed", True)
    monkeypatch.setattr(InterpretBackend, "listed", True)
    monkeypatch.setattr(type(backends()["opencl"]), "listed", False)
    same = replace(interpreted.PLAIN_GPU, uuid=UUID)
    monkeypatch.setattr(interpreted, "PLAIN_GPU", same)
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/nowhere/libnvrtc.so.13"]))
    monkeypatch.setattr(log, "_said", {})
    forget()
    yield made
    forget()


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return str(path)


def stand_in(program: Program, architecture: str) -> Image:
    """An image as NVRTC would have built it."""
    return Image(architecture, "NVRTC 13.0", b"code", b"ptx")


def run(session: fourfold.Session) -> list[np.ndarray]:
    given = {session.inputs[0].name: PICTURE.reshape(session.inputs[0].shape)}
    return list(session.run(given).values())


@pytest.mark.usefixtures("driver")
def test_it_is_listed_once_with_its_other_address() -> None:
    (info,) = devices()
    assert (info.address, info.others) == ("cuda:0", ("interpret:0",))
    assert "cuda:0, also interpret:0" in CliRunner().invoke(main, ["devices"]).output.replace(
        "\n", " "
    )


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("wanted", "address"),
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
def test_what_names_mean(wanted: str | int, address: str) -> None:
    found = find_device(wanted, compiles=False)
    assert (found.address, found.index) == (address, 0)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("wanted", ["auto", "gpu", "nvidia", 0])
def test_who_compiles_gets_the_api_that_has_a_compiler(
    wanted: str | int, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_device(wanted).address == "interpret:0"
    assert "runs through interpret:0: CUDA kernels cannot be built" in caplog.text
    assert "pip install fourfold[cuda]" in caplog.text


@pytest.mark.usefixtures("driver")
def test_who_asks_by_name_gets_what_was_asked() -> None:
    assert find_device("cuda").address == "cuda:0"
    assert find_device(find_device("cuda:0")).address == "cuda:0"


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("wanted", ["auto", "gpu", 0])
def test_a_session_without_a_compiler_is_played_by_the_other(
    wanted: str | int, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    with fourfold.Session(model, device=wanted, cache=None) as session:
        assert session.device.address == "interpret:0"
        results = run(session)
    with fourfold.Session(model, device="interpret", cache=None) as session:
        np.testing.assert_array_equal(results[0], run(session)[0])
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert "runs through interpret:0: CUDA kernels cannot be built" in line


@pytest.mark.usefixtures("driver")
def test_a_session_by_name_says_how_to_get_a_compiler(model: str) -> None:
    with pytest.raises(DeviceError, match="NVRTC cannot be loaded") as caught:
        fourfold.Session(model, device="cuda", cache=None)
    assert "pip install fourfold[cuda]" in caught.value.fix


@needs_compiler
def test_what_is_prepared_needs_no_compiler(
    model: str, driver: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "build", stand_in)
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
def test_a_file_for_the_other_api_is_played_by_it(
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
def test_a_file_without_a_plan_for_any_api_is_refused_as_ever(model: str, tmp_path: Path) -> None:
    file = str(tmp_path / "small.fourfold")
    words = ["prepare", model, "-o", file, "--only-here", "--device", "opencl:0"]
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert done.exception is None, done.output
    with pytest.raises(InputError, match="can run on Imagined GPU"):
        fourfold.Session(file, device="gpu")


def test_the_best_api_is_asked_alone(driver: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start need not load the drivers of other APIs to find a GPU, or to number it."""

    def asked(backend: object) -> None:
        pytest.fail("another API was asked")

    monkeypatch.setattr(InterpretBackend, "devices", asked)
    for wanted in ("auto", "gpu", "nvidia", 0, "cuda", "cuda:0"):
        assert find_device(wanted, compiles=False).address == "cuda:0"
    assert discovery.leading_devices()[0].index == 0
