"""JAX's arrays on a GPU, in and out of sessions by CUDA."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from onnx_writer import small_model
from small_networks import small_onnx

import fourfold
from fourfold.errors import InputError

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others want the GPU's memory, too
jax = pytest.importorskip("jax", reason="the package jax is not installed")


def has_gpu() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


pytestmark = pytest.mark.skipif(not has_gpu(), reason="JAX has no GPU here")


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def array(seed: int) -> Any:
    return jax.device_put(picture(seed), jax.devices("cuda")[0])


@pytest.fixture
def session(cuda_session: fourfold.Session) -> fourfold.Session:
    return cuda_session


def test_in_and_out(session: fourfold.Session) -> None:
    for seed in range(5):
        expected = session.run(picture(seed))["scores"]
        given = array(seed)
        kept: Any = session.run(given, keep_on_device=True)["scores"]
        taken = jax.dlpack.from_dlpack(kept)
        assert taken.unsafe_buffer_pointer() == kept.handle
        del kept
        np.testing.assert_array_equal(np.asarray(taken), expected)
        np.testing.assert_array_equal(np.asarray(given), picture(seed))


def test_the_same_array_again(session: fourfold.Session) -> None:
    expected, given = session.run(picture(1))["scores"], array(1)
    for _ in range(5):
        np.testing.assert_array_equal(session.run(given)["scores"], expected)


def test_behind_work_that_is_not_done(session: fourfold.Session) -> None:
    """JAX gives out arrays before they are made."""

    @jax.jit
    def slow(x: Any, large: Any) -> Any:
        for _ in range(20):
            large = large @ large / 64
        return x + 0 * large[0, 0]

    expected = session.run(picture(1))["scores"]
    new, large = array(1), jax.numpy.ones((4096, 4096)) / 64
    slow(new, large).block_until_ready()
    for _ in range(3):
        given = slow(new, large)
        np.testing.assert_array_equal(session.run(given)["scores"], expected)


def test_a_result_goes_on_in_jax(session: fourfold.Session) -> None:
    expected = session.run(picture(3))["scores"]
    kept: Any = session.run(array(3), keep_on_device=True)["scores"]
    found = jax.jit(lambda x: -x)(jax.dlpack.from_dlpack(kept))
    np.testing.assert_array_equal(np.asarray(found), -expected)
    with fourfold.Session(
        small_model("Neg", {"x": (1, 5)}), session.device, cache="memory"
    ) as second:
        np.testing.assert_array_equal(second.run(found)["y"], expected)


def test_bound(session: fourfold.Session) -> None:
    expected, given = session.run(picture(2))["scores"], array(2)
    session.bind("image", given)
    for _ in range(4):
        np.testing.assert_array_equal(session.run()["scores"], expected)


def test_arrays_never_change(session: fourfold.Session) -> None:
    with pytest.raises(InputError) as caught:
        session.run(picture(1), out={"scores": jax.numpy.zeros((1, 5))})
    assert "keep_on_device=True" in caught.value.fix


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int32"])
def test_arrays_that_do_not_fit(session: fourfold.Session, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        session.run(array(1).astype(kind))
    assert caught.value.fix


def test_sessions_of_other_apis_refuse_them() -> None:
    with (
        fourfold.Session(small_onnx(), "interpret", cache="memory") as other,
        pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)"),
    ):
        other.run(array(1))
