"""Attributes of PyTorch tensors are read directly; a fake torch module replaces the real one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from fourfold.backends.cuda.import_memory import TorchTensor, torch_tensor

STREAMS = {0: 0, 1: 0x5EED}  # current streams of two GPUs


@dataclass
class Tensor:
    """The parts of a tensor that are used."""

    shape: tuple[int, ...] = (2, 3)
    dtype: str = "torch.float32"
    ordinal: int = 0
    is_cuda: bool = True
    requires_grad: bool = False
    negated: bool = False
    contiguous: bool = True
    nbytes: int = 24

    def is_neg(self) -> bool:
        return self.negated

    def is_contiguous(self) -> bool:
        return self.contiguous

    def get_device(self) -> int:
        return self.ordinal

    def data_ptr(self) -> int:
        return 0x7000


@pytest.fixture(autouse=True, params=["raw", "objects"])
def torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a torch that returns the current stream as a number, and an older one."""
    raw = {"_cuda_getCurrentRawStream": STREAMS.get} if request.param == "raw" else {}
    cuda = SimpleNamespace(
        current_stream=lambda ordinal: SimpleNamespace(cuda_stream=STREAMS[ordinal])
    )
    result = SimpleNamespace(Tensor=Tensor, _C=SimpleNamespace(**raw), cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", result)


def test_reads_attributes_of_plain_tensors() -> None:
    expected = TorchTensor(0x7000, 1, (2, 3), np.dtype("float32"), 24, 0x5EED)
    assert torch_tensor(Tensor(ordinal=1)) == expected


@pytest.mark.parametrize(
    "other",
    [
        Tensor(is_cuda=False),
        Tensor(requires_grad=True),
        Tensor(negated=True),
        Tensor(contiguous=False),
        Tensor(dtype="torch.quint8"),
        np.zeros(3),
        "torch.Tensor",
    ],
)
def test_other_objects_are_left_to_dlpack(other: object) -> None:
    assert torch_tensor(other) is None


def test_without_torch_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert torch_tensor(Tensor()) is None
