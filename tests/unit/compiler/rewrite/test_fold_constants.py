"""fold_constants: values that depend on no input are computed once."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from random_graphs import assert_rewrites, build

from fourfold.compiler.rewrite import _names
from fourfold.compiler.rewrite.fold_constants import fold_constants

fold_constants_module = sys.modules[fold_constants.__module__]


def test_nodes_of_constants_become_constants() -> None:
    before = """
        input x: f32[2,3]
        const a: f32[3]
        const b: f32[3]
        c = add(a, b)
        d = relu(c)
        y = mul(x, d)
        output y
    """
    graph = assert_rewrites(fold_constants, before, "y = mul(x, d)")
    assert list(graph.constants) == ["d"]


def test_a_constant_output_is_copied_by_a_node() -> None:
    before = """
        input x: f32[3]
        const a: f32[3]
        y = negate(a)
        z = add(x, y)
        output y, z
    """
    assert_rewrites(fold_constants, before, "y = identity(y/folded)", "z = add(x, y)")


@pytest.mark.parametrize("multiple", [100, 10_000_000])
def test_keeps_nodes_that_grow_too_much(multiple: int) -> None:
    graph = build(f"""
        input x: f32[1]
        const a: f32[1]
        b = tile(a; multiples=({multiple},))
        y = add(x, b)
        output y
    """)
    assert len(fold_constants(graph).nodes) == (1 if multiple == 100 else 2)


def test_large_convolutions_of_constants_stay() -> None:
    text = """
        input x: f32[1,{0},{0},1]
        const a: f32[1,{0},{0},1]
        const w: f32[1,3,3,1]
        b = conv2d(a, w, -; padding=Padding(1, 1, 1, 1))
        y = add(x, b)
        output y
    """
    assert len(fold_constants(build(text.format(5))).nodes) == 1
    assert len(fold_constants(build(text.format(500))).nodes) == 2


def test_folds_as_kernels_compute_where_an_index_is_out_of_range() -> None:
    graph = build("""
        input x: f32[2]
        const a: f32[3]
        const i: i32[2] = 7
        b = gather(a, i)
        y = add(x, b)
        output y
    """)
    folded = fold_constants(graph)
    assert folded.constants["b"].tolist() == [graph.constants["a"][-1]] * 2


def test_types_are_kept() -> None:
    graph = build("""
        input x: f32[3]
        const a: i32[3] = 2
        b = cast(a; to=DType.F32)
        y = add(x, b)
        output y
    """)
    assert fold_constants(graph).constants["b"].dtype == np.float32


def many_functions(count: int) -> str:
    lines = ["input x: f32[100]", "const a: f32[100]"]
    for number in range(count):
        lines += [f"f{number} = tanh(a)" if number % 2 else f"f{number} = exp(a)"]
        lines += [f"y{number} = add(x, f{number})"]
    return "\n".join([*lines, f"output {', '.join(f'y{number}' for number in range(count))}"])


@pytest.mark.parametrize(("limit", "value"), [("FREE_WORK", 1000), ("FREE_BYTES", 2000)])
def test_stops_at_the_budget(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node reads and writes 200 elements, and has a result of 400 bytes."""
    monkeypatch.setattr(_names, limit, value)
    monkeypatch.setattr(_names, "WORK_PER_BYTE", 0 if limit == "FREE_WORK" else 16)
    monkeypatch.setattr(fold_constants_module, "GROWTH", 0)
    graph = fold_constants(build(many_functions(12)))
    assert sum(node.op in ("exp", "tanh") for node in graph.nodes) == 12 - 5


def test_budget_spends_nothing_on_a_refused_node() -> None:
    budget = _names.FoldBudget(build(many_functions(1)), 4)
    work, size = budget.work, budget.bytes
    assert not budget.take(work + 1, 1)
    assert not budget.take(1, size + 1)
    assert budget.take(work, size)
    assert (budget.work, budget.bytes) == (0, 0)
