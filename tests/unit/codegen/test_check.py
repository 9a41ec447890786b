"""The rules of the kernel language: kernels of ops keep all of them, and each can be broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_devices import EXTENDED, NVIDIA, X86
from op_kernels import WITH_KERNELS, all_kernels, op_graph
from ops.test_dots import GRIDS, network

from fourfold.backends.null import NULL_GPU
from fourfold.codegen import expression as e
from fourfold.codegen.check import check_kernel
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.expression import Expression
from fourfold.codegen.intrinsics import load_bytes, pack_halves, subgroup_shift
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import (
    Assign,
    CopyAhead,
    DotAccumulate,
    MatrixMultiply,
    Store,
    StoreRounded,
    WarpgroupMultiply,
)
from fourfold.device import DeviceInfo
from fourfold.types import DType

DEVICES = [(NULL_GPU, "fp32"), (NULL_GPU, "fp16"), (X86, "fp32"), (NVIDIA, "mixed")]
DEVICES += [(EXTENDED, "mixed")]


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_kernels_of_ops_are_legal(name: str) -> None:
    graph = op_graph(name)
    wrong = {
        what
        for device, precision in DEVICES
        for kernel in all_kernels(graph, device, KernelOptions(precision))
        for what in check_kernel(kernel)
    }
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("like", [X86, EXTENDED, replace(NVIDIA, matrix_units=False)])
def test_kernels_of_bytes_are_legal(like: DeviceInfo) -> None:
    kernels = [
        kernel
        for grid in GRIDS
        for kernel in all_kernels(network(grid, 16, 2, odd=143), like, KernelOptions("fp32"))
    ]
    wrong = {what for kernel in kernels for what in check_kernel(kernel)}
    assert not wrong, "\n".join(sorted(wrong))
    assert any("dots" in kernel.title for kernel in kernels)


def broken(kernel: Kernel, what: Callable[[Kernel], object]) -> list[str]:
    what(kernel)
    return check_kernel(kernel)


def _unknown_op(kernel: Kernel) -> None:
    kernel.let(Expression("get_global_id(0)", (), "int"))


def _text_as_a_name(kernel: Kernel) -> None:
    kernel.variable(e.name("as_float(x)", "float"))


def _two_kinds(kernel: Kernel) -> None:
    kernel.let(e.vector(e.const(1.0), e.const(1.0, "half")))


def _unknown_function(kernel: Kernel) -> None:
    kernel.let(e.math("sinh", e.const(1.0)))


def _one_operand_too_few(kernel: Kernel) -> None:
    kernel.let(e.math("atan2", e.const(1.0)))


def _width_of_three(kernel: Kernel) -> None:
    kernel.let(Expression("splat", (e.const(1.0),), "float", 3))


def _unknown_name(kernel: Kernel) -> None:
    kernel.let(e.name("nowhere", "int") + 1)


def _name_of_another_block(kernel: Kernel) -> None:
    with kernel.loop(4) as i:
        inside = kernel.let(i * 2, "inside")
    kernel.let(inside + 1)


def _constant_that_changes(kernel: Kernel) -> None:
    fixed = kernel.let(e.global_id(0), "fixed")
    kernel.emit(Assign(fixed, e.const(1)))


def _store_to_an_input(kernel: Kernel) -> None:
    source = kernel.pointer("src", DType.F32, None)
    kernel.store(source, 0, e.const(1.0))


def _store_of_truth_as_a_number(kernel: Kernel) -> None:
    target = kernel.pointer("dst", DType.F32, None, writable=True)
    kernel.emit(Store(target, e.const(0), e.const(True)))


def _unknown_pointer(kernel: Kernel) -> None:
    elsewhere = Kernel("other", literal=True).pointer("src", DType.F32, None)
    kernel.let(e.load(elsewhere, 0, "float"))


def _other_width_than_the_pointer_has(kernel: Kernel) -> None:
    near = kernel.shifted(kernel.pointer("src", DType.F32, None), 4, 4, "near")
    kernel.let(e.load(near, 0, "float", 8))


def _real_index(kernel: Kernel) -> None:
    kernel.let(e.load(kernel.pointer("src", DType.F32, None), e.const(1.5), "float"))


def _other_elements_than_the_array_has(kernel: Kernel) -> None:
    shared = kernel.local_array("shared", "float", 4, 8)
    kernel.store(shared, 0, e.const(1.0))


def _condition_that_is_a_number(kernel: Kernel) -> None:
    with kernel.when(kernel.let(e.global_id(0), "x")):
        kernel.barrier()


def _halves_of_two_floats(kernel: Kernel) -> None:
    kernel.let(pack_halves(e.const(0.0, "float", 2)))


def _any_distance(kernel: Kernel) -> None:
    kernel.let(subgroup_shift(e.const(0, "uint", 2), 3))


def _bytes_out_of_floats(kernel: Kernel) -> None:
    kernel.let(load_bytes(kernel.pointer("src", DType.F32, None), 0))


def _dots_of_floats(kernel: Kernel) -> None:
    total = kernel.variable(e.const(0, "int", 4))
    kernel.emit(DotAccumulate(total, e.const(0, "int", 4), e.const(0.0, "float", 4)))


def _fragments_of_floats(kernel: Kernel) -> None:
    total, part = kernel.variable(e.const(0.0, "float", 4)), e.const(0.0, "float", 2)
    kernel.emit(MatrixMultiply(total, part, part, part))


def _warpgroups_without_local_memory(kernel: Kernel) -> None:
    total, zero = kernel.variable(e.const(0.0, "float", 4)), e.const(0)
    source = kernel.pointer("src", DType.F16, None)
    places = (source, source, zero, zero, zero, zero)
    kernel.emit(WarpgroupMultiply(*places, (total,) * 8))


def _warpgroups_for_three_blocks(kernel: Kernel) -> None:
    total, zero = kernel.variable(e.const(0.0, "float", 4)), e.const(0)
    local = kernel.local_array("local", "uint", 4, 64)
    kernel.emit(WarpgroupMultiply(local, local, zero, zero, zero, zero, (total,) * 3))


def _warpgroups_for_what_is_no_variable(kernel: Kernel) -> None:
    total, zero = kernel.let(e.const(0.0, "float", 4)), e.const(0)
    local = kernel.local_array("local", "uint", 4, 64)
    kernel.emit(WarpgroupMultiply(local, local, zero, zero, zero, zero, (total,) * 8))


def _copies_of_three_words(kernel: Kernel) -> None:
    local, zero = kernel.local_array("local", "uint", 2, 64), e.const(0)
    source = kernel.pointer("src", DType.F16, None)
    kernel.emit(CopyAhead(local, source, zero, zero, e.const(True), e.const(3)))


def _copies_that_are_no_elements(kernel: Kernel) -> None:
    local, zero = kernel.local_array("local", "uint", 2, 64), e.const(0)
    source = kernel.pointer("src", DType.F16, None)
    kernel.emit(CopyAhead(local, source, zero, zero, e.const(True), e.const(4)))


def _rounding_to_floats(kernel: Kernel) -> None:
    target = kernel.pointer("dst", DType.F32, None, writable=True)
    eight = e.const(0.0, "float", 8)
    kernel.emit(StoreRounded(target, e.const(0), eight, eight, e.const(255.0)))


BREAKS = {name: item for name, item in vars().items() if name.startswith("_") and callable(item)}


@pytest.mark.parametrize("name", BREAKS)
def test_each_rule_reports_violations(name: str) -> None:
    assert broken(Kernel("broken", literal=True), BREAKS[name])


def test_valid_kernel_passes_all_rules() -> None:
    kernel = Kernel("plain", literal=False)
    source = kernel.pointer("src", DType.F32, None)
    target = kernel.pointer("dst", DType.F32, None, writable=True)
    (x,) = kernel.ids(29, local=(8,))
    total = kernel.variable(e.const(0.0), "total")
    with kernel.loop(kernel.size("count", 5)) as i:
        kernel.add(total, e.load(source, x * 5 + i, "float"))
    with kernel.when(total > kernel.number("least", 2.5)) as large:
        kernel.store(target, x, total)
    assert large is not None
    with kernel.otherwise(large):
        kernel.store(target, x, e.const(0.0))
    assert check_kernel(kernel) == []
