"""TensorFlow, Keras and PyTorch models agree with their own frameworks."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fourfold
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError

TESTS = Path(__file__).parents[3]
SAVED_MODEL = TESTS.parents[1] / "shared" / "models" / "saved_model" / "kws_ref_model"
needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None, reason="needs: pip install 'fourfold[tensorflow]'"
)
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("onnxscript") is None,
    reason="needs: pip install 'fourfold[torch]'",
)
pytestmark = pytest.mark.slow


def write_models(script: str, folder: Path, *more: Path) -> Path:
    """Write the models in a separate process, so that no framework is imported here."""
    command = [sys.executable, str(TESTS / script), str(folder), *map(str, more)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def tensorflow_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    more = [SAVED_MODEL] if SAVED_MODEL.is_dir() else []
    return write_models("tensorflow_models.py", tmp_path_factory.mktemp("tensorflow"), *more)


@pytest.fixture(scope="module")
def torch_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models("torch_models.py", tmp_path_factory.mktemp("torch"))


def compare(model: Path, arrays_file: Path, device: DeviceInfo, cache: Path) -> None:
    """Compare all outputs by name and order, from the model and from the cache."""
    arrays = np.load(arrays_file)
    ends: dict[str, dict[str, np.ndarray]] = {"inputs": {}, "outputs": {}}
    for name in arrays.files:
        end, _, own = name.partition("/")
        ends[end][own] = arrays[name]
    shapes = {name: array.shape for name, array in ends["inputs"].items()}
    for origin in ("model", "store"):
        with fourfold.Session(model, device, shapes=shapes, cache=cache) as session:
            output = session.run(ends["inputs"])
            assert session.origin == origin
            assert session.placement.whole
            assert "converted from" in session.placement.origin
    if "" in ends["outputs"]:  # the output has no name
        ends["outputs"] = dict(zip(output, ends["outputs"].values(), strict=True))
    assert output.keys() == ends["outputs"].keys()
    for name, expected in ends["outputs"].items():
        np.testing.assert_allclose(output[name], expected, atol=1e-4 * float(np.ptp(expected)))


@needs_tensorflow
@pytest.mark.parametrize(
    "name", ["two.keras", "two.h5", "named.keras", "row.keras", "signatures", "frozen.pb"]
)
def test_tensorflow_models_agree(
    tensorflow_models: Path, name: str, device: DeviceInfo, tmp_path: Path
) -> None:
    model = tensorflow_models / name
    compare(model, tensorflow_models / f"{name}.npz", device, tmp_path)


@needs_tensorflow
def test_inputs_keep_the_order_of_the_model(
    tensorflow_models: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    with fourfold.Session(tensorflow_models / "two.keras", device, cache=tmp_path) as session:
        assert [one.name for one in session.inputs] == ["image", "extra"]
        assert [one.name for one in session.outputs] == ["scores", "boxes"]


@needs_tensorflow
def test_keeps_other_signatures(
    tensorflow_models: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    model = tensorflow_models / "signatures"
    with fourfold.Session(model, device, signature="another", cache=tmp_path) as session:
        assert [one.name for one in session.inputs] == ["y"]
        assert [one.name for one in session.outputs] == ["sum"]
        assert {*session.signatures} == {"another", "serving_default"}


@needs_tensorflow
@pytest.mark.skipif(not SAVED_MODEL.is_dir(), reason="the collection of models is not there")
def test_converts_a_saved_model_that_keras_cannot_load(
    tensorflow_models: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    """It contains the optimizer of another Keras version; the names of its signature stay."""
    compare(SAVED_MODEL, tensorflow_models / f"{SAVED_MODEL.name}.npz", device, tmp_path)


@needs_tensorflow
def test_recognizes_a_keras_file_with_another_extension(
    tensorflow_models: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    other = tmp_path / "model.bin"
    other.write_bytes((tensorflow_models / "row.keras").read_bytes())
    for model in (other, other.read_bytes()):
        with fourfold.Session(model, device, cache=tmp_path / "cache") as session:
            assert [one.name for one in session.outputs] == ["last"]


@needs_tensorflow
def test_error_for_a_damaged_file_contains_the_frameworks_message(
    tensorflow_models: Path, tmp_path: Path
) -> None:
    content = (tensorflow_models / "two.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"TensorFlow cannot convert .*cut\.h5") as caught:
        fourfold.Session(tmp_path / "cut.h5", cache=None)
    assert "Error" in caught.value.why


@needs_torch
@pytest.mark.parametrize("name", ["named.pt2", "open.pt2"])
def test_torch_models_agree(
    torch_models: Path, name: str, device: DeviceInfo, tmp_path: Path
) -> None:
    compare(torch_models / name, torch_models / f"{name}.npz", device, tmp_path)


MODULE = """
import sys
import numpy as np
import torch
import fourfold
from torch_models import Named, Plain

module, x = Plain(), torch.rand(2, 3, 9, 7)
module.train()
content = fourfold.from_torch(module, x, ({0: torch.export.Dim("batch", max=9)},))
assert module.training
module.eval()
with fourfold.Session(content, sys.argv[1], cache=None) as session:
    assert [one.name for one in session.inputs] == ["x"]
    for batch in (2, 5):
        x = torch.rand(batch, 3, 9, 7)
        (found,) = session.run(x.numpy()).values()
        np.testing.assert_allclose(found, module(x).detach().numpy(), atol=1e-5)
program = torch.export.export(Named(), (x, torch.rand(1)))
assert fourfold.from_torch(program)
for wrong, kind in ((Plain(), fourfold.ModelError), ("model.pt", fourfold.InputError)):
    try:
        fourfold.from_torch(wrong, torch.rand(2, 2))
    except kind as error:
        print(error)
"""


@needs_torch
def test_from_torch_converts_modules(device: DeviceInfo) -> None:
    """The test runs in a separate process, which imports PyTorch."""
    command = [sys.executable, "-c", MODULE, device.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS)
    assert done.returncode == 0, done.stderr
    assert "PyTorch cannot export Plain to ONNX" in done.stdout
    assert "it got a str" in done.stdout


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_error_without_torch_contains_the_install_command() -> None:
    with pytest.raises(InputError, match=r"pip install 'fourfold\[torch\]'"):
        fourfold.from_torch(object())
