"""Top-k, argmax and softmax behind a model, on a device and by NumPy's definitions."""

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
def plain() -> dict[str, np.ndarray]:
    with fourfold.Session(small_onnx(), "cpu", cache=None) as session:
        return session.run(IMAGE)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_the_best_of_an_output(
    precision: str, plain: dict[str, np.ndarray], device: DeviceInfo
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
        found = session.run(IMAGE)
    order = np.argsort(-plain["scores"][0], kind="stable")[:3]
    assert found["classes"].tolist() == [order.tolist()]
    assert found["classes"].dtype == np.int32
    np.testing.assert_allclose(found["scores"], softmax(plain["scores"])[:, order], rtol=2e-3)
    np.testing.assert_allclose(found["twice"], plain["twice"], rtol=2e-3, atol=1e-5)


def test_results_of_several_outputs_have_different_names(plain: dict[str, np.ndarray]) -> None:
    options = {"scores": processing.ArgMax(), "twice": processing.TopK(2)}
    with fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=options) as session:
        found = session.run(IMAGE)
    assert list(found) == ["classes", "scores", "twice/classes"]
    assert found["classes"].tolist() == [int(plain["scores"].argmax())]
    assert found["twice/classes"][0, 0] == plain["twice"].argmax()


def test_a_result_does_not_take_the_name_of_an_output_that_stays() -> None:
    options = {"twice": processing.TopK(2)}
    with fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=options) as session:
        assert [one.name for one in session.outputs] == ["scores", "twice/scores", "classes"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_along_any_axis(axis: int, device: DeviceInfo) -> None:
    model = writer.write(
        [writer.Tensor("x", (3, 4, 5)), writer.Tensor("y", (3, 4, 5))],
        [writer.Operator("NEG", ["x"], ["y"])],
        inputs=["x"],
        outputs=["y"],
    )
    x = np.random.default_rng(2).normal(0, 2, (3, 4, 5)).astype(np.float32)
    option = processing.Softmax(axis)
    with fourfold.Session(model, device, cache=None, postprocess=option) as session:
        found = session.run(x)["y"]
    powers = np.exp(-x)
    np.testing.assert_allclose(found, powers / powers.sum(axis, keepdims=True), rtol=1e-5)


def test_a_quantised_output_becomes_real_numbers(device: DeviceInfo) -> None:
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
        found = session.run(x)
    assert found["scores"].tolist() == [[98.5, 98.5, 14.0]]
    assert found["classes"].tolist() == [[1, 5, 3]]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (processing.TopK(9), "has fewer than 9 values"),
        (processing.ArgMax(2), "has no axis 2"),
        (processing.Softmax(-3), "has no axis -3"),
    ],
)
def test_what_does_not_fit_is_told(option: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fourfold.Session(small_onnx(), "cpu", cache=None, postprocess={"scores": option})


def test_an_output_needs_a_name_among_several() -> None:
    with pytest.raises(InputError, match="passed without a name") as caught:
        fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=processing.TopK(2))
    assert "postprocess={'scores': TopK(count=2, softmax=False)}" in caught.value.fix


def test_an_unknown_output_gets_the_nearest_names() -> None:
    options = {"score": processing.TopK(2)}
    with pytest.raises(InputError, match="no output 'score'") as caught:
        fourfold.Session(small_onnx(), "cpu", cache=None, postprocess=options)
    assert caught.value.fix == "did you mean 'scores'?"


def test_whole_numbers_are_no_scores() -> None:
    model = writer.write(
        [writer.Tensor("x", (1, 7), "int32"), writer.Tensor("y", (1, 7), "int32")],
        [writer.Operator("NEG", ["x"], ["y"])],
        inputs=["x"],
        outputs=["y"],
    )
    with pytest.raises(InputError, match="'y' cannot be processed") as caught:
        fourfold.Session(model, "cpu", cache=None, postprocess=processing.TopK(2))
    assert "i32[1,7]" in caught.value.why


def test_a_model_may_have_values_of_that_name() -> None:
    """Nodes of the model and those behind it stay apart, also where placement names them."""
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
