"""Details of a lowering: the kernels and the arena are those of the plan."""

from __future__ import annotations

from itertools import combinations

import pytest
from small_networks import small_network

from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import LoweringInput, prepare_lowering
from fourfold.compiler.tune.search import Known, searches
from fourfold.options import CompileOptions

LIST = CompileOptions(launches="list")


@pytest.fixture(params=["fp32", "mixed"])
def lowering(request: pytest.FixtureRequest) -> LoweringInput:
    options = CompileOptions(precision=request.param, launches="list")
    return prepare_lowering(small_network(), NULL_GPU, options)


def test_kernels_are_those_of_the_plan_in_its_order(lowering: LoweringInput) -> None:
    details, plan = lowering.details(), lowering.plan()
    assert [kernel.launch for kernel in details.kernels] == list(plan.launches)
    for kernel in details.kernels:
        assert kernel.text in plan.program.text
        assert str(details.nodes[kernel.node].node) == kernel.launch.node


def test_arena_equals_that_of_the_plan(
    lowering: LoweringInput,
) -> None:
    details = lowering.details()
    assert details.arena == lowering.plan().bytes("arena")
    for a, b in combinations(details.spans, 2):
        together = a.first <= b.last and b.first <= a.last
        apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
        assert apart or not together
    assert max(span.offset + span.bytes for span in details.spans) <= details.arena


def test_bytes_are_those_that_a_kernel_has_to_move() -> None:
    """image f32[1,5,6,3] with filters f32[4,3,3,3] and a bias: features f32[1,3,4,4]."""
    details = prepare_lowering(small_network(), NULL_GPU, LIST).details()
    first = details.kernels[0]
    image, features = 5 * 6 * 3 * 4, 3 * 4 * 4 * 4
    assert first.bytes_written == features
    assert first.bytes_read >= image + 4 * 9 * 3 * 4
    assert first.bytes_read < 4 * (image + 4 * 9 * 3 * 4)


def test_reports_tuned_choice() -> None:
    lowering = prepare_lowering(small_network(), NULL_GPU, LIST)
    search = next(searches(*lowering, Known({}, {}), 4))
    default, other = (str(one) for one in search.candidates[:2])
    ways = [
        {detail.key: detail.way for detail in lowering.details(choices).nodes}[search.key]
        for choices in ({}, {search.key: other})
    ]
    assert ways == [default, other]


def test_views_have_no_choice() -> None:
    details = prepare_lowering(small_network(), NULL_GPU, LIST).details()
    free = [detail for detail in details.nodes if not detail.way]
    assert {detail.node.op for detail in free} <= {"reshape"}
    run = {kernel.node for kernel in details.kernels}
    assert run.isdisjoint(details.nodes.index(detail) for detail in free)
