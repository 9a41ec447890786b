"""DLPack rules for CUDA memory in both directions: versions, flags, copies, streams."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_arrays import Tensor, VersionedTensor
from onnx_writer import small_model

import fourfold
from fourfold.backends import backend_of
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.dlpack import DeviceTensor, device_tensor
from fourfold.backends.dlpack_devices import CPU, CUDA
from fourfold.backends.dlpack_export import _exported, make_capsule
from fourfold.backends.dlpack_structures import (
    IS_COPIED,
    READ_ONLY,
    VERSIONED,
    capsule_content,
)
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.runtime.device_array import DeviceArray

X = np.random.default_rng(7).normal(size=(3, 5)).astype(np.float32)
HOST = (CPU, 0)


@pytest.fixture
def session(cuda: DeviceInfo) -> Iterator[fourfold.Session]:
    with fourfold.Session(small_model("Neg", {"x": X.shape}), cuda, cache="memory") as opened:
        yield opened


def kept_result(session: fourfold.Session) -> DeviceArray:
    output = session.run(X, keep_on_device=True)["y"]
    assert isinstance(output, DeviceArray)
    return output


class CapsuleContent:
    """The content of an unconsumed capsule; valid while the capsule lives."""

    def __init__(self, capsule: Any) -> None:
        result = capsule_content(id(capsule))
        assert result is not None
        self.capsule, (self.form, address) = capsule, result
        self.managed: Any = self.form.structure.from_address(address)
        self.tensor: Any = self.managed.tensor


@pytest.mark.parametrize("form", [Tensor, VersionedTensor])
def test_accepts_all_dlpack_versions(session: fourfold.Session, form: type[Tensor]) -> None:
    inputs, target = form(session.device, X), form(session.device, np.zeros_like(X))
    session.run(inputs, out={"y": target})
    np.testing.assert_array_equal(target.numpy(), -X)
    assert inputs.streams == [1]  # the legacy default stream
    assert getattr(inputs, "versions", [(1, 0)]) == [(1, 0)]


def test_producer_gets_the_callers_stream(session: fourfold.Session) -> None:
    with context_of(session.device):
        stream = cu.Stream()
    result: Any = type("Stream", (), {"__cuda_stream__": lambda self: (0, stream.pointer.value)})  # type: ignore[union-attr]
    inputs = VersionedTensor(session.device, X)
    with fourfold.Session(small_model("Neg", {"x": X.shape}), result(), cache="memory") as own:
        np.testing.assert_array_equal(own.run(inputs)["y"], -X)
    assert stream.pointer is not None
    assert inputs.streams == [stream.pointer.value]
    with context_of(session.device):
        stream.release()


@pytest.mark.parametrize("flags", [READ_ONLY, IS_COPIED, READ_ONLY | IS_COPIED])
def test_read_only_tensors_are_inputs_only(session: fourfold.Session, flags: int) -> None:
    """Results written to a copy would be lost."""
    inputs = VersionedTensor(session.device, X)
    inputs.flags = flags
    np.testing.assert_array_equal(session.run(inputs)["y"], -X)
    with pytest.raises(InputError, match="'y' cannot be written to"):
        session.run(X, out={"y": inputs})
    with pytest.raises(InputError, match="'y' cannot be written to"):
        session.bind("y", inputs)
    np.testing.assert_array_equal(inputs.numpy(), X)


@pytest.mark.parametrize("form", [Tensor, VersionedTensor])
def test_jax_arrays_are_inputs_only(session: fourfold.Session, form: type[Tensor]) -> None:
    """Unversioned capsules have no read-only flag."""
    kind: Any = type("ArrayImpl", (form,), {"__module__": "jaxlib._jax"})
    inputs = kind(session.device, X)
    np.testing.assert_array_equal(session.run(inputs)["y"], -X)
    with pytest.raises(InputError) as caught:
        session.run(X, out={"y": inputs})
    assert caught.value.why == "JAX arrays are immutable"
    assert "jax.dlpack.from_dlpack" in caught.value.fix
    np.testing.assert_array_equal(inputs.numpy(), X)


def test_rejects_and_releases_unknown_versions(session: fourfold.Session) -> None:
    class Newer(VersionedTensor):
        def capsule(self, flags: int | None) -> Any:
            result = super().capsule(flags)
            CapsuleContent(result).managed.major = 2
            return result

    gc.collect()
    before = len(_exported)
    with pytest.raises(InputError, match=r"uses DLPack 2\.0") as caught:
        session.run(Newer(session.device, X))
    assert "update fourfold" in caught.value.fix
    del caught
    gc.collect()
    assert len(_exported) == before


def test_rejects_invalid_capsules(session: fourfold.Session) -> None:
    class Wrong(Tensor):
        def __dlpack__(self, *, stream: int | None = None) -> Any:
            return taken if stream == 1 else None

    taken = Tensor(session.device, X).__dlpack__()
    kept = DeviceTensor(CapsuleContent(taken).managed)
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(taken), VERSIONED.used)
    with pytest.raises(InputError, match="Wrong is not a DLPack tensor") as caught:
        session.run(Wrong(session.device, X))
    assert "used_dltensor" in caught.value.why
    del kept


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": 4, "bits": 16}, "bfloat16"),
        ({"kind": 10, "bits": 8}, "kind 10 with 8 bits"),
        ({"kind": 2, "bits": 24}, "kind 2 with 24 bits"),
        ({"kind": 6, "bits": 16}, "kind 6 with 16 bits"),
        ({"lanes": 4}, "not supported"),
    ],
)
def test_rejects_unsupported_dtypes(cuda: DeviceInfo, changes: dict[str, int], words: str) -> None:
    class Odd(VersionedTensor):
        def capsule(self, flags: int | None) -> Any:
            result = super().capsule(flags)
            for name, value in changes.items():
                setattr(CapsuleContent(result).tensor, name, value)
            return result

    with pytest.raises(InputError, match=words) as caught:
        backend_of(cuda).import_memory(cuda, Odd(cuda, X))
    assert "float32" in caught.value.fix


@pytest.mark.parametrize(("strides", "able"), [((5, 1), True), ((1, 3), False), (None, True)])
def test_strides_count_elements(
    session: fourfold.Session, strides: tuple[int, int] | None, able: bool
) -> None:
    class Strided(VersionedTensor):
        def capsule(self, flags: int | None) -> Any:
            result = super().capsule(flags)
            tensor = CapsuleContent(result).tensor
            self.steps = None if strides is None else (ctypes.c_int64 * 2)(*strides)
            pointer = ctypes.POINTER(ctypes.c_int64)
            tensor.strides = ctypes.cast(self.steps, pointer)
            return result

    inputs = Strided(session.device, X)
    if able:
        np.testing.assert_array_equal(session.run(inputs)["y"], -X)
    else:
        with pytest.raises(InputError, match="not contiguous"):
            session.run(inputs)


def test_supports_byte_offsets(session: fourfold.Session) -> None:
    class Behind(VersionedTensor):
        def capsule(self, flags: int | None) -> Any:
            result = super().capsule(flags)
            tensor = CapsuleContent(result).tensor
            tensor.data, tensor.start = tensor.data - 256, 256
            return result

    inputs = Behind(session.device, X, skipped=256)
    np.testing.assert_array_equal(session.run(inputs)["y"], -X)


@pytest.mark.parametrize(
    ("max_version", "versioned"), [(None, False), ((0, 8), False), ((1, 0), True), ((2, 3), True)]
)
def test_exports_the_requested_version(
    session: fourfold.Session, max_version: tuple[int, int] | None, versioned: bool
) -> None:
    kept = kept_result(session)
    capsule = kept.__dlpack__(stream=1, max_version=max_version)
    held = CapsuleContent(capsule)
    assert (held.form is VERSIONED) == versioned
    assert (held.managed.major, held.managed.flags) == (1, 0)
    assert held.tensor.data == kept.handle
    assert (held.tensor.device, held.tensor.ordinal) == kept.__dlpack_device__()


def test_exports_read_only_results(session: fourfold.Session) -> None:
    kept = kept_result(session)
    kept.memory.read_only = True
    with pytest.raises(BufferError, match=r"request DLPack 1\.0"):
        kept.__dlpack__()
    assert CapsuleContent(kept.__dlpack__(max_version=(1, 0))).managed.flags == READ_ONLY
    assert kept.__cuda_array_interface__["data"] == (kept.handle, True)
    assert CapsuleContent(kept.__dlpack__(copy=True)).tensor.data != kept.handle


def test_exports_results_to_the_host(session: fourfold.Session) -> None:
    kept = kept_result(session)
    capsule = kept.__dlpack__(dl_device=HOST, max_version=(1, 0))
    assert CapsuleContent(capsule).managed.flags == IS_COPIED
    tensor = device_tensor(kept)
    assert tensor.device == CUDA
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        np.testing.assert_array_equal(np.from_dlpack(kept, device="cpu"), -X)
    with pytest.raises(BufferError, match="can only be copied to the host"):
        kept.__dlpack__(dl_device=HOST, copy=False)
    with pytest.raises(BufferError, match=r"copied to the host, not \(8, 0\)"):
        kept.__dlpack__(dl_device=(8, 0))


def test_exports_copies_on_the_device(session: fourfold.Session) -> None:
    kept = kept_result(session)
    capsule = kept.__dlpack__(copy=True, max_version=(1, 0))
    held = CapsuleContent(capsule)
    assert (held.managed.flags, held.tensor.device) == (IS_COPIED, CUDA)
    assert held.tensor.data != kept.handle

    class Copied(Tensor):
        def __dlpack__(self, *, stream: int | None = None) -> Any:
            return capsule

    np.testing.assert_array_equal(session.run(Copied(session.device, X))["y"], X)
    shared = CapsuleContent(kept.__dlpack__(copy=False, dl_device=kept.__dlpack_device__()))
    assert shared.tensor.data == kept.handle


@pytest.mark.parametrize("flags", [None, 0])
def test_unconsumed_capsules_are_released(flags: int | None) -> None:
    before, owner = len(_exported), np.zeros(3, np.float32)
    capsule = make_capsule(owner, owner.ctypes.data, HOST, owner.shape, owner.dtype, flags)
    assert len(_exported) == before + 1
    del capsule
    assert len(_exported) == before


def test_empty_tensors_have_no_address() -> None:
    capsule = make_capsule(None, 0x7000, (CUDA, 0), (3, 0, 2), np.dtype(np.float32), 0)
    assert CapsuleContent(capsule).tensor.data is None
