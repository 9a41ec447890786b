"""Arrays of PyTorch, TensorFlow, JAX and Pillow as inputs and outputs, where installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.errors import InputError
from fourfold.runtime.arrays import as_array
from fourfold.runtime.fitting import fit_array
from fourfold.runtime.tensor_info import TensorInfo

X = numbers(1)


def import_library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"the package {name} is not installed")


@pytest.fixture(scope="module")
def session() -> Iterator[fourfold.Session]:
    with fourfold.Session(matrix(), "cpu", cache=None) as session:
        yield session


def check_accepted(session: fourfold.Session, given: Any) -> None:
    for inputs in (given, [given], {"x": given}):
        np.testing.assert_allclose(session.run(inputs)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_run_accepts_pytorch_tensors(session: fourfold.Session) -> None:
    torch = import_library("torch")
    tensor = torch.from_numpy(X.copy())
    assert as_array(tensor, "it").ctypes.data == tensor.data_ptr()
    check_accepted(session, tensor)
    check_accepted(session, tensor.t().contiguous().t())
    check_accepted(session, tensor.double())
    states = {
        "x.detach()": torch.nn.Parameter(tensor),
        "x.float()": tensor.bfloat16(),
        "x.to_dense()": tensor.to_sparse(),
        "x.detach().to_dense()": tensor.to_sparse().requires_grad_(),
        "x.cpu()": tensor.to("meta"),
    }
    for fix, value in states.items():
        with pytest.raises(InputError) as caught:
            session.run(value)
        assert caught.value.fix == f"pass {fix}"
    with pytest.raises(InputError) as caught:
        session.run(tensor[0])
    assert caught.value.what == "input 'x' has shape (4,), not (2, 4)"


def test_run_accepts_tensorflow_tensors(session: fourfold.Session) -> None:
    tf = import_library("tensorflow")
    check_accepted(session, tf.constant(X))
    check_accepted(session, tf.Variable(X))
    with pytest.raises(InputError, match="SparseTensor, whose memory NumPy cannot access"):
        session.run(tf.sparse.from_dense(X))


def test_run_accepts_jax_arrays(session: fourfold.Session) -> None:
    jnp = import_library("jax.numpy")
    inputs = jnp.asarray(X)
    assert as_array(inputs, "it").ctypes.data == inputs.unsafe_buffer_pointer()
    check_accepted(session, inputs)
    with pytest.raises(InputError, match=r"has shape \(4,\)"):
        session.run(inputs[0])
    np.testing.assert_allclose(
        session.run(inputs.astype(jnp.bfloat16))["y"], X @ WEIGHTS.T, atol=0.05
    )


def test_rejects_traced_jax_arrays(session: fourfold.Session) -> None:
    jax = import_library("jax")
    with pytest.raises(InputError, match="cannot be read as an array"):
        jax.jit(session.run)(X)


def doubling_image_model() -> bytes:
    """Return a model of y = x + x, where x is an image."""
    shape, steps = (1, 5, 7, 3), {"scale": (1.0,), "zero_point": (0,)}
    return writer.write(
        [writer.Tensor("x", shape, "uint8", **steps), writer.Tensor("y", shape, "uint8", **steps)],
        [writer.Operator("ADD", ["x", "x"], ["y"], "AddOptions")],
        ["x"],
        ["y"],
    )


def test_run_accepts_pillow_images() -> None:
    image = import_library("PIL.Image")
    array = np.random.default_rng(3).integers(0, 100, (5, 7, 3), np.uint8)
    picture = image.fromarray(array)
    with fourfold.Session(doubling_image_model(), "cpu", cache=None) as session:
        for inputs in (picture, [picture], {"x": picture}):
            np.testing.assert_array_equal(session.run(inputs)["y"][0], 2 * array)
        cases = {
            "pass image.convert('RGB')": [picture.convert("L"), picture.convert("RGBA")],
            "pass image.resize((7, 5))": [picture.resize((9, 9))],
            "pass image.convert('RGB').resize((7, 5))": [picture.convert("L").resize((9, 9))],
        }
        for fix, wrong in cases.items():
            for one in wrong:
                with pytest.raises(InputError) as caught:
                    session.run(one)
                assert caught.value.fix == fix
        with pytest.raises(InputError, match="mode 'P'"):
            session.run(picture.convert("P"))


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (1, 5, 7), (1, 5, 7, 1)])
def test_grayscale_images_get_the_axes_of_the_input(shape: tuple[int, ...]) -> None:
    picture = import_library("PIL.Image").new("L", (7, 5), 3)
    result = fit_array(TensorInfo("x", shape, np.dtype(np.uint8)), picture, set())
    np.testing.assert_array_equal(result, np.full(shape, 3, np.uint8))


def test_rejects_images_for_channels_first_inputs_with_a_fix() -> None:
    picture = import_library("PIL.Image").new("RGB", (7, 5), (1, 2, 3))
    info = TensorInfo("x", (1, 3, 5, 7), np.dtype(np.uint8))
    with pytest.raises(InputError) as caught:
        fit_array(info, picture, set())
    assert caught.value.fix == "pass np.asarray(image).transpose(2, 0, 1)[None]"


def test_error_suggests_pixels_for_an_image_passed_to_a_float_input() -> None:
    picture = import_library("PIL.Image").new("RGB", (7, 5))
    info = TensorInfo("x", (1, 5, 7, 3), np.dtype(np.float32))
    with pytest.raises(InputError, match="is uint8, not float32") as caught:
        fit_array(info, picture, set())
    assert "fourfold.Pixels(...)" in caught.value.fix


@pytest.mark.parametrize(
    ("order", "fix"),
    [
        ("bgr", "open the session with order='rgb', or pass an array"),
        ("rgba", "pass image.convert('RGBA')"),
    ],
)
def test_rejects_images_in_another_channel_order(order: str, fix: str) -> None:
    picture = import_library("PIL.Image").new("RGB", (7, 5))
    info = TensorInfo("x", (1, 5, 7, 3), np.dtype(np.uint8), pixels=f"{order}, mean 0, std 1")
    with pytest.raises(InputError, match=f"pixels in {order} order") as caught:
        fit_array(info, picture, set())
    assert caught.value.fix == fix
    plain = TensorInfo("x", (1, 5, 7, 3), np.dtype(np.uint8), pixels="rgb, mean 0, std 1")
    assert fit_array(plain, picture, set()).shape == (1, 5, 7, 3)


def test_out_accepts_pytorch_tensors(session: fourfold.Session) -> None:
    torch = import_library("torch")
    tensor = torch.empty(2, 3)
    assert session.run(X, out=tensor)["y"] is tensor
    np.testing.assert_allclose(tensor.numpy(), X @ WEIGHTS.T, atol=1e-6)
    strided = torch.empty(3, 2).t()
    session.run(X, out={"y": strided})
    np.testing.assert_array_equal(strided.numpy(), tensor.numpy())
    with pytest.raises(InputError, match="which has no memory"):
        session.run(X, out=torch.nn.Parameter(tensor))


def test_out_rejects_immutable_jax_arrays(session: fourfold.Session) -> None:
    jnp = import_library("jax.numpy")
    with pytest.raises(InputError, match=r"cannot be written to|which has no memory"):
        session.run(X, out=jnp.zeros((2, 3)))


def test_out_rejects_tensorflow_variables(session: fourfold.Session) -> None:
    """TensorFlow exports copies of its memory."""
    tf = import_library("tensorflow")
    for value in (tf.Variable(np.zeros((2, 3), np.float32)), tf.zeros((2, 3))):
        with pytest.raises(InputError, match=r"cannot be written to|which has no memory"):
            session.run(X, out=value)
