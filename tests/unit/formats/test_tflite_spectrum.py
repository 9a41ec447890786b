"""Fourier transforms: references and device agree with LiteRT, and no complex value remains."""

from __future__ import annotations

import numpy as np
import pytest
from runtimes import INSTALLED, interpreter, run
from tflite_writer import Operator, Tensor, constant, write

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import ModelError, UnsupportedError
from fourfold.formats import read_model
from fourfold.formats.tflite.convert.spectrum import MAX_LENGTH

pytestmark = pytest.mark.skipif(not INSTALLED, reason="no TFLite runtime is installed")


def spectrum_model(rows: int, size: tuple[int, int], width: int = 16) -> bytes:
    """Return a model of y = |rfft2d(x)| with a reshape between the two."""
    bins = size[1] // 2 + 1
    return write(
        [
            Tensor("x", (5, rows, width)),
            constant("size", size, "int32"),
            Tensor("t", (5, size[0], bins), "complex64"),
            constant("shape", (5 * size[0], bins), "int32"),
            Tensor("u", (5 * size[0], bins), "complex64"),
            Tensor("y", (5 * size[0], bins)),
        ],
        [
            Operator("RFFT2D", ["x", "size"], ["t"]),
            Operator("RESHAPE", ["t", "shape"], ["u"]),
            Operator("COMPLEX_ABS", ["u"], ["y"]),
        ],
        ["x"],
        ["y"],
    )


VARIANTS = {"whole": (1, (1, 16)), "longer": (1, (1, 32)), "plane": (8, (8, 16))}


@pytest.mark.parametrize("variant", VARIANTS)
def test_reference_agrees_with_litert(variant: str) -> None:
    model = spectrum_model(*VARIANTS[variant])
    graph = read_model(model).main
    x = np.random.default_rng(3).normal(0, 1, graph.types["x"].shape).astype(np.float32)
    (expected,) = run(interpreter(INSTALLED[0], model), [x])
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)
    after = rewrite(graph, verify=True)
    np.testing.assert_allclose(evaluate(after, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)
    complex_ = any(type_.dtype.value == "c64" for type_ in after.types.values())
    assert complex_ == (variant == "plane")


@pytest.mark.parametrize("variant", VARIANTS)
def test_device_agrees_with_litert(variant: str, device: DeviceInfo) -> None:
    model = spectrum_model(*VARIANTS[variant])
    with fourfold.Session(model, device, cache=None, placement="gpu") as session:
        x = np.random.default_rng(4).normal(0, 1, session.inputs[0].shape).astype(np.float32)
        (outputs,) = session.run(x).values()
        assert session.placement.whole == (variant != "plane")
    (expected,) = run(interpreter(INSTALLED[0], model), [x])
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)


def test_rejects_huge_transforms() -> None:
    with pytest.raises((ModelError, UnsupportedError), match="too large"):
        read_model(spectrum_model(1, (1, 2 * MAX_LENGTH)))
