"""Weights that exceed the cache: a stage prefetches those of a later one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_on_host import needs_compiler, play_on_host
from random_graphs import build

from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.cuda.boards import find_board
from fourfold.codegen.c_style.sharing import AHEAD
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.stage_table import HEAD, ConstantSpan
from fourfold.compiler.lower import make_plan, specialise
from fourfold.graph import Graph
from fourfold.plan import Plan

DEEP = """
    input x: f32[1,5,7,16]
    const a: f32[64,1,1,16]
    const b: f32[48,3,3,64]
    const c: f32[160,1,1,48]
    const d: f32[512,1,1,160]
    const e: f32[704,512]
    k = conv2d(x, a)
    l = conv2d(k, b; padding=Padding(1,1,1,1)) |> relu
    m = conv2d(l, c)
    n = conv2d(m, d)
    o = mean(n; axes=(1,2), keep_dims=True)
    p = reshape(o; shape=(1,512))
    y = fully_connected(p, e)
    output y
    """
# fp16 elements by stage. The first stage fetches the input, the second has weights that no stage
# prefetched for it, and a mean has none.
BYTES = [2 * 48 * 64 * 9, 2 * 160 * 48, 2 * 512 * 160, 0, 2 * 704 * 512, *[0] * AHEAD]


def deep() -> Graph:
    graph = build(DEEP)
    halves = {n: a.astype(np.float16).astype(np.float32) for n, a in graph.constants.items()}
    return replace(graph, constants=halves)


def plan_of(graph: Graph, units: int = 3) -> Plan:
    board = find_board("sm_90", units=units)
    assert board is not None
    return make_plan(graph, board, KernelOptions("mixed", form="one"))


def rows_of(plan: Plan) -> np.ndarray:
    """Return the table of the only run, or of the run that fetches inputs."""
    (launch,) = plan.launches
    *_, stages, at = launch.arguments
    assert isinstance(stages, int)
    assert isinstance(at, int)
    words = plan.constants[at:].view(np.int32)
    stride = next(size for size in range(HEAD, 64) if plan.program.text.count(f"* {size};") > 1)
    return words[: stages * stride].reshape(stages, stride)


@pytest.fixture(autouse=True)
def _little_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)
    monkeypatch.setattr(specialise, "CACHE_BYTES", 512 << 10)


def test_each_stage_prefetches_weights_of_a_later_one() -> None:
    plan = plan_of(deep())
    assert "prefetch.global.L2" in plan.program.text
    rows = rows_of(plan)
    spans = [ConstantSpan(*map(int, row[6:8])) for row in rows]
    assert [span.bytes for span in spans] == BYTES
    for row, span in zip(rows[AHEAD:], spans, strict=False):
        assert 0 <= span.start <= span.start + span.bytes <= plan.constants.nbytes
        if span.bytes:
            pairs = row[HEAD : HEAD + 8].reshape(-1, 2)  # for weights, offsets count halves
            assert (1, span.start // 2) in {(int(buffer), int(at)) for buffer, at in pairs}


def test_weights_that_fit_in_the_cache_are_not_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "CACHE_BYTES", 1 << 20)
    plan = plan_of(deep())
    assert "prefetch" not in plan.program.text
    assert not rows_of(plan)[:, 6:8].any()


@needs_compiler
def test_results_are_the_same(tmp_path: Path) -> None:
    graph = deep()
    x = np.random.default_rng(3).uniform(-1, 1, (1, 5, 7, 16)).astype(np.float32)
    plan = plan_of(graph, units=1)  # the host has no groups that wait for each other
    assert "fetch_lines" in plan.program.text
    (result,) = play_on_host(plan, [x], tmp_path)
    expected = evaluate(graph, {"x": x})["y"]
    assert not np.isnan(result).any()
    np.testing.assert_allclose(result, expected, atol=2e-3 * np.abs(expected).max())
