"""The layouts of TFLite's structures have the sizes and offsets of its C header."""

from __future__ import annotations

import ctypes

import pytest

from fourfold.errors import DeviceError
from fourfold.integrations.delegate import structs
from fourfold.integrations.delegate.native import check_layouts

pytestmark = pytest.mark.skipif(
    ctypes.sizeof(ctypes.c_void_p) != 8, reason="offsets are those of 64 bits"
)


@pytest.mark.parametrize(
    ("field", "offset"),
    [
        *(("type", 0), ("data", 8), ("dims", 16), ("allocation_type", 32), ("bytes", 40)),
        *(("name", 56), ("is_variable", 77), ("sparsity", 96), ("dims_signature", 104)),
    ],
)
def test_a_tensor(field: str, offset: int) -> None:
    assert getattr(structs.TfLiteTensor, field).offset == offset


@pytest.mark.parametrize(
    ("field", "offset"),
    [
        *(("GetExecutionPlan", 8), ("tensors", 16), ("ReportError", 40)),
        *(("GetNodeAndRegistration", 56), ("ReplaceNodeSubsetsWithDelegateKernels", 64)),
        *(("ResizeTensor", 32), ("PreviewDelegatePartitioning", 152)),
    ],
)
def test_a_context(field: str, offset: int) -> None:
    assert getattr(structs.TfLiteContext, field).offset == offset


def test_sizes() -> None:
    assert ctypes.sizeof(structs.TfLiteTensor) == structs.TENSOR_BYTES
    assert ctypes.sizeof(structs.TfLiteDelegateParams) == 32
    assert structs.TfLiteNode.user_data.offset == 32
    check_layouts()


def test_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourfold.integrations.delegate.native.TENSOR_BYTES", 120)
    with pytest.raises(DeviceError, match="known layout has 120"):
        check_layouts()


@pytest.mark.parametrize("numbers", [(), (7,), (3, 1, 2)])
def test_numbers_come_back(numbers: tuple[int, ...]) -> None:
    array = structs.write_numbers(numbers)
    assert structs.read_numbers(ctypes.addressof(array)) == numbers
    assert structs.read_numbers(None) == ()
