"""batch_matmul: each work-item computes one tile, for any group size."""

from __future__ import annotations

import pytest
from fake_devices import H200, IMAGES, X86
from op_kernels import all_kernels
from random_graphs import build

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.statement import Store
from fourfold.codegen.walk import statements
from fourfold.device import DeviceInfo
from fourfold.ops.batch_matmul import ROWS


@pytest.mark.parametrize("make", [X86, IMAGES, H200], ids=["cpu", "gpu", "resident"])
@pytest.mark.parametrize("rows", [3, 13, 160])
def test_a_work_item_computes_each_of_its_rows_once(make: DeviceInfo, rows: int) -> None:
    graph = build(f"""
        input a: f32[2,{rows},8]
        input b: f32[2,8,12]
        y = batch_matmul(a, b; transposed=False)
        output y
    """)
    for kernel in all_kernels(graph, make, KernelOptions()):
        stored = [one for one in statements(kernel.body) if isinstance(one, Store)]
        assert len(stored) == min(ROWS, rows)
