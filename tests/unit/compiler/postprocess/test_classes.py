"""Top-k, argmax and softmax after a model, on a device and compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tflite_writer as writer
from small_networks import small_onnx

import fourfold
from fourfold import processing
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

IMAGE = np.random.default_rng(1).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def raw_outputs() -> dict[str, np.ndarray]:
    with fourfold.Session(small_onnx(), "cpu", cache=None) as session:
        return session.run(IMAGE)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_returns_top_k_of_an_output(
    precision: str, raw_outputs: dict[str, np.ndarray], device: DeviceInfo
) -> None:
    options = {"scores": processing.TopK(3, softmax=True)}
    with fourfold.Session(
        small_onnx(), device, precision, cache=None, postprocess=options
    ) as session:
        assert [(one.name, one.shape) for one in session.outputs] == [
            ("scores", (1, 3)),
            ("classes", (1, 3)),
            ("twice", (1, 5)),
        ]
        outputs = session.run(IMAGE)
    order = np.argsort(-raw_outputs["scores"][0], kind="stable")[:3]
    assert outputs["classes"].tolist() == [order.tolist()]
    assert outputs["classes"].dtype == np.int32
    np.testing.assert_allclose(
        outputs["scores"], softmax(raw_outputs["scores"])[:, order], rtol=2e-3
    )
    np.testing.assert_allclose(outputs["twice"], raw_outputs["twice"], rtol=2e-3, atol=1e-5)


def test_results_of_several_outputs_have_unique_names(raw_outputs: dict[str, np.ndarray]) -> None:
    options = {"scores": processing.ArgMax(), "twice": processing.TopK(2)}
    with fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=options) as session:
        outputs = session.run(IMAGE)
    assert list(outputs) == ["classes", "scores", "twice/classes"]
    assert outputs["classes"].tolist() == [int(raw_outputs["scores"].argmax())]
    assert outputs["twice/classes"][0, 0] == raw_outputs["twice"].argmax()


def test_results_do_not_reuse_names_of_other_outputs() -> None:
    options = {"twice": processing.TopK(2)}
    with fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=options) as session:
        assert [one.name for one in session.outputs] == ["scores", "twice/scores", "classes"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_computes_softmax_along_any_axis(axis: int, device: DeviceInfo) -> None:
    model = writer.write(
        [writer.Tensor("x", (3, 4, 5)), writer.Tensor("y", (3, 4, 5))],
        [writer.Operator("NEG", ["x"], ["y"])],
        inputs=["x"],
        outputs=["y"],
    )
    x = np.random.default_rng(2).normal(0, 2, (3, 4, 5)).astype(np.float32)
    option = processing.Softmax(axis)
    with fourfold.Session(model, device, cache=None, postprocess=option) as session:
        output = session.run(x)["y"]
    powers = np.exp(-x)
    np.testing.assert_allclose(output, powers / powers.sum(axis, keepdims=True), rtol=1e-5)


def test_quantized_outputs_become_real_numbers(device: DeviceInfo) -> None:
    model = writer.write(
        [
            writer.Tensor("x", (1, 7), "uint8", scale=[0.5], zero_point=[3]),
            writer.Tensor("y", (1, 7), "uint8", scale=[0.5], zero_point=[3]),
        ],
        [writer.Operator("RELU", ["x"], ["y"])],
        inputs=["x"],
        outputs=["y"],
    )
    x = np.array([[9, 200, 0, 31, 3, 200, 7]], np.uint8)
    with fourfold.Session(model, device, cache=None, postprocess=processing.TopK(3)) as session:
        outputs = session.run(x)
    assert outputs["scores"].tolist() == [[98.5, 98.5, 14.0]]
    assert outputs["classes"].tolist() == [[1, 5, 3]]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (processing.TopK(9), "has fewer than 9 values"),
        (processing.ArgMax(2), "has no axis 2"),
        (processing.Softmax(-3), "has no axis -3"),
    ],
)
def test_rejects_mismatched_options(option: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fourfold.Session(small_onnx(), "cpu", cache=None, postprocess={"scores": option})


def test_several_outputs_need_a_name() -> None:
    with pytest.raises(InputError, match="passed without a name") as caught:
        fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=processing.TopK(2))
    assert "postprocess={'scores': TopK(count=2, softmax=False)}" in caught.value.fix


def test_error_for_an_unknown_output_suggests_names() -> None:
    options = {"score": processing.TopK(2)}
    with pytest.raises(InputError, match="no output 'score'") as caught:
        fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=options)
    assert caught.value.fix == "did you mean 'scores'?"


def test_rejects_integer_outputs() -> None:
    model = writer.write(
        [writer.Tensor("x", (1, 7), "int32"), writer.Tensor("y", (1, 7), "int32")],
        [writer.Operator("NEG", ["x"], ["y"])],
        inputs=["x"],
        outputs=["y"],
    )
    with pytest.raises(InputError, match="'y' cannot be processed") as caught:
        fourfold.Session(model, "cpu", cache=None, postprocess=processing.TopK(2))
    assert "i32[1,7]" in caught.value.why


def test_model_values_may_be_named_postprocess() -> None:
    """Nodes of the model and of the postprocessing stay separate, also in the placement."""
    model = writer.write(
        [writer.Tensor(name, (1, 7)) for name in ("x", "postprocess", "y")],
        [
            writer.Operator("NEG", ["x"], ["postprocess"]),
            writer.Operator("RELU", ["postprocess"], ["y"]),
        ],
        inputs=["x"],
        outputs=["y"],
    )
    x = np.random.default_rng(4).normal(0, 1, (1, 7)).astype(np.float32)
    with fourfold.Session(model, "cpu", cache=None, postprocess=processing.TopK(1)) as session:
        assert session.run(x)["classes"].tolist() == [[int(x.argmin())]]
        names = [row.name for row in session.placement.rows]
    assert names == ["postprocess", "y", "postprocess_"]
