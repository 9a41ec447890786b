"""JAX arrays on a GPU as inputs and outputs of CUDA sessions."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from onnx_writer import small_model
from small_networks import small_onnx

import fourfold
from fourfold.errors import InputError

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave GPU memory for other tests
jax = pytest.importorskip("jax", reason="the package jax is not installed")


def has_gpu() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


pytestmark = pytest.mark.skipif(not has_gpu(), reason="JAX has no GPU here")


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def jax_array(seed: int) -> Any:
    return jax.device_put(random_image(seed), jax.devices("cuda")[0])


@pytest.fixture
def session(cuda_session: fourfold.Session) -> fourfold.Session:
    return cuda_session


def test_accepts_arrays_and_exports_results(session: fourfold.Session) -> None:
    for seed in range(5):
        expected = session.run(random_image(seed))["scores"]
        inputs = jax_array(seed)
        kept: Any = session.run(inputs, keep_on_device=True)["scores"]
        taken = jax.dlpack.from_dlpack(kept)
        assert taken.unsafe_buffer_pointer() == kept.handle
        del kept
        np.testing.assert_array_equal(np.asarray(taken), expected)
        np.testing.assert_array_equal(np.asarray(inputs), random_image(seed))


def test_accepts_the_same_array_again(session: fourfold.Session) -> None:
    expected, inputs = session.run(random_image(1))["scores"], jax_array(1)
    for _ in range(5):
        np.testing.assert_array_equal(session.run(inputs)["scores"], expected)


def test_runs_after_pending_work(session: fourfold.Session) -> None:
    """JAX returns arrays before their values are computed."""

    @jax.jit
    def slow(x: Any, large: Any) -> Any:
        for _ in range(20):
            large = large @ large / 64
        return x + 0 * large[0, 0]

    expected = session.run(random_image(1))["scores"]
    new, large = jax_array(1), jax.numpy.ones((4096, 4096)) / 64
    slow(new, large).block_until_ready()
    for _ in range(3):
        inputs = slow(new, large)
        np.testing.assert_array_equal(session.run(inputs)["scores"], expected)


def test_jax_computes_with_results(session: fourfold.Session) -> None:
    expected = session.run(random_image(3))["scores"]
    kept: Any = session.run(jax_array(3), keep_on_device=True)["scores"]
    result = jax.jit(lambda x: -x)(jax.dlpack.from_dlpack(kept))
    np.testing.assert_array_equal(np.asarray(result), -expected)
    with fourfold.Session(
        small_model("Neg", {"x": (1, 5)}), session.device, cache="memory"
    ) as second:
        np.testing.assert_array_equal(second.run(result)["y"], expected)


def test_binds_arrays(session: fourfold.Session) -> None:
    expected, inputs = session.run(random_image(2))["scores"], jax_array(2)
    session.bind("image", inputs)
    for _ in range(4):
        np.testing.assert_array_equal(session.run()["scores"], expected)


def test_rejects_jax_arrays_as_outputs(session: fourfold.Session) -> None:
    with pytest.raises(InputError) as caught:
        session.run(random_image(1), out={"scores": jax.numpy.zeros((1, 5))})
    assert "keep_on_device=True" in caught.value.fix


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int32"])
def test_rejects_other_dtypes(session: fourfold.Session, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        session.run(jax_array(1).astype(kind))
    assert caught.value.fix


def test_sessions_of_other_apis_reject_jax_arrays() -> None:
    with (
        fourfold.Session(small_onnx(), "interpret", cache="memory") as other,
        pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)"),
    ):
        other.run(jax_array(1))
