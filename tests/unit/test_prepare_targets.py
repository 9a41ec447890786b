"""Files can be prepared for GPUs that are not attached, and run on such a GPU later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from cuda_on_host import HostKernels, needs_compiler
from fake_cuda import FakeCuda
from imagined_gpu import forget_drivers, installed
from small_networks import small_onnx

import fourfold
from fourfold.backends import find_device, find_target
from fourfold.backends.cuda import nvrtc
from fourfold.backends.cuda.architectures import architecture_name, older_architectures
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.image import Image, unpack
from fourfold.cli import main
from fourfold.plan import Program
from fourfold.store.keys import program_parts
from fourfold.store.prepared import Prepared


def fake_build(program: Program, architecture: str) -> Image:
    """Return an image like one compiled with NVRTC."""
    return Image(architecture, "NVRTC 13.0", f"code for {architecture}".encode(), b"ptx")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nvrtc, "build", fake_build)
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_drivers()
    monkeypatch.setattr(calls, "library", lambda: pytest.fail("the driver was loaded"))


@pytest.fixture
def driver() -> Iterator[FakeCuda]:
    with installed(FakeCuda(capability=(8, 7), units=8)) as result:
        yield result


def prepare(model: Path, *arguments: str) -> Result:
    output = str(model.with_suffix(".fourfold"))
    words = ["prepare", str(model), "-o", output, "--only-here", *arguments]
    return CliRunner().invoke(main, words, standalone_mode=False)


@pytest.mark.usefixtures("no_driver")
def test_prepares_a_file_for_an_architecture(model: Path) -> None:
    done = prepare(model, "--device", "cuda:sm_87", "--units", "16")
    assert done.exception is None, done.output
    assert "any sm_87" in done.output
    prepared = Prepared.open(str(model.with_suffix(".fourfold")))
    (row,) = [one for one in prepared.index["plans"] if one["made_for"]["name"] == "any sm_87"]
    assert row["made_for"]["compute_units"] == 16
    plan = prepared.model(row).plan
    assert plan.requirements.language == "cuda"
    (binary,) = [one for one in prepared.index["binaries"] if "architecture" in one["parts"]]
    assert binary["parts"]["architecture"] == "sm_87"
    image = unpack(bytes(prepared.file.section(binary["section"], "binary")))
    assert image is not None
    assert image.cubin == b"code for sm_87"
    shown = CliRunner().invoke(main, ["inspect", str(model.with_suffix(".fourfold"))])
    assert shown.exception is None, shown.output
    assert "any sm_87" in shown.output.rpartition("binaries")[2]


@pytest.mark.usefixtures("no_driver")
def test_binaries_match_the_same_and_newer_architectures(model: Path) -> None:
    prepare(model, "--device", "cuda:sm_87")
    prepared = Prepared.open(str(model.with_suffix(".fourfold")))
    program = prepared.model(prepared.best(0, find_target("cuda:sm_87"))).plan.program
    for capability, matches in (((12, 0), True), ((8, 7), True), ((8, 6), False)):
        names = (architecture_name(capability), *older_architectures(capability))
        device = replace(find_target("cuda:sm_87"), architectures=names)
        assert (prepared.binary_for(program, device) is not None) == matches


@pytest.mark.usefixtures("no_driver")
def test_tuning_requires_an_attached_gpu(model: Path) -> None:
    done = prepare(model, "--device", "cuda:sm_87", "--tune", "rapid")
    assert "tune on the device" in done.output
    assert not model.with_suffix(".fourfold").exists()


@pytest.mark.usefixtures("no_driver")
def test_explains_kernels_for_an_architecture(model: Path) -> None:
    words = ["explain", str(model), "--stage", "kernels", "--device", "cuda:sm_87"]
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert done.exception is None
    assert "__global__ void" in done.output


@needs_compiler
def test_prepared_file_runs_on_a_gpu_of_the_architecture(
    model: Path, driver: FakeCuda, tmp_path: Path
) -> None:
    """Neither the model nor the compiler is needed, and the name of the GPU does not matter."""
    prepare(model, "--device", "cuda:sm_87")
    file = str(model.with_suffix(".fourfold"))
    prepared, device = Prepared.open(file), find_device("cuda:0")
    plan = prepared.model(prepared.best(0, fourfold.backends.probe(device))).plan
    assert prepared.binary(program_parts(plan.program, device)) is not None
    driver.images[b"code for sm_87"] = HostKernels(plan.program, tmp_path)
    image = np.random.default_rng(3).uniform(-1, 1, (1, 3, 5, 6)).astype(np.float32)
    with fourfold.Session(file, device="cuda:0") as session:
        results = session.run({session.inputs[0].name: image.reshape(session.inputs[0].shape)})
    with fourfold.Session(str(model), device="interpret") as session:
        expected = session.run({session.inputs[0].name: image.reshape(session.inputs[0].shape)})
    assert driver.launched
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-5)
    assert driver.held == {}
