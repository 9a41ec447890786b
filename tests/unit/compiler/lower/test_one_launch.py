"""When launches become one, and how the work of its stages is divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_devices import H200
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.c_style import renderer, sharing
from fourfold.codegen.c_style.renderer import Renderer
from fourfold.codegen.c_style.stage_function import StageFunction, render_stage
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.opencl.claiming import STATE_STRIDE
from fourfold.codegen.opencl.language import PersistentKernel
from fourfold.codegen.stage import Stage
from fourfold.codegen.stage_table import cut_axis
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.one_launch import form_key
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.plan import BufferUse, Plan
from fourfold.types import DType, TensorType

SPINS = replace(
    NULL_GPU,
    kind="cpu",
    compute_units=4,
    version="OpenCL 3.0 of a kind",
    forward_progress=True,
)
SLEEPS = replace(SPINS, version="OpenCL 3.0 HSTR: pthread-x86_64-unknown-linux-gnu-any")
CHAIN = """
input x: f32[1,{size},{size},8]
const w: f32[8,3,3,8]
a = conv2d(x, w)
b = conv2d(a, w)
c = conv2d(b, w)
d = conv2d(c, w)
output d
"""


def plan_of(size: int, device: DeviceInfo) -> Plan:
    return make_plan(build(CHAIN.format(size=size)), device, KernelOptions())


def test_small_launches_are_joined_and_large_ones_if_waiting_is_cheap() -> None:
    assert [len(plan_of(17, device).launches) for device in (SPINS, SLEEPS)] == [1, 1]
    assert [len(plan_of(257, device).launches) for device in (SPINS, SLEEPS)] == [4, 1]


def test_launches_that_move_much_stay_a_list_on_a_gpu() -> None:
    """A persistent kernel has few work-items per compute unit, too few to saturate memory."""
    large = replace(NULL_GPU, compute_units=2, resident=True, max_work_group=1024)
    assert [len(plan_of(size, large).launches) for size in (17, 257)] == [1, 4]


def test_more_groups_than_a_row_can_hold_keep_the_list() -> None:
    kernel = Kernel("large", literal=True)
    far = BufferUse(0, 2**31)
    for grid, uses, fits in [
        ((2**20, 2**10), (), True),
        ((2**20, 2**11), (), False),
        ((1,), (far,), False),
    ]:
        kernel.grid, kernel.local = grid, (1,) * len(grid)
        refused = PersistentKernel().refuses([Stage(kernel, uses)], SPINS)
        assert refused == (None if fits else "buffer offsets are too large for the stage table")


def test_groups_side_by_side_share_the_local_memory() -> None:
    """A group of one launch runs several small ones at once, each with arrays of its own."""
    deep = """
input x: f32[1,7,7,1024]
const w: f32[1024,1,1,1024]
a = conv2d(x, w)
b = conv2d(a, w)
c = conv2d(b, w)
d = conv2d(c, w)
output d
"""
    shares = make_plan(build(deep), H200, KernelOptions(form="one"))
    assert shares.requirements.resident_groups
    assert 0 < shares.requirements.local_memory <= H200.local_memory


def test_excess_local_memory_keeps_the_list() -> None:
    kernel = Kernel("large", literal=True)
    kernel.grid, kernel.local = (64,), (64,)
    kernel.local_array("held", "float", 4, 512)
    for size, fits in [(4 * 512 * 16 + 1024, True), (4 * 512 * 16, False)]:
        device = replace(H200, local_memory=size)
        refused = PersistentKernel().refuses([Stage(kernel, ())], device)
        assert (refused is None) == fits, refused


@pytest.mark.parametrize("shape", ["2147483776,1", "3,2147483653", "1,65536,32770,1"])
def test_rejects_sizes_beyond_32_bits(shape: str) -> None:
    graph = build(f"input x: f32[{shape}]\ny = relu(x)\noutput y\n")
    with pytest.raises(UnsupportedError, match="exceeds the 32-bit limit"):
        make_plan(graph, NULL_GPU, KernelOptions())


def test_rejects_inputs_that_are_not_arrays() -> None:
    graph = build("input x: f32[1,8]\ninput r: f32[]\ny = relu(x)\noutput y\n")
    resource = TensorType(DType.RESOURCE, ())
    graph = replace(graph, types={**graph.types, "r": resource})
    with pytest.raises(UnsupportedError, match="resource values cannot be passed as arrays"):
        make_plan(graph, NULL_GPU, KernelOptions())


def test_very_many_outputs_keep_the_list() -> None:
    """A stage selects among all buffers, and compilers do not accept hundreds of them."""
    names = [f"y{number}" for number in range(200)]
    nodes = "\n".join(f"{name} = tanh(x)" for name in names)
    graph = build(f"input x: f32[1,8]\n{nodes}\noutput {', '.join(names)}")
    assert len(make_plan(graph, SLEEPS, KernelOptions(form="one")).launches) == 200


def test_no_forward_progress_keeps_the_list() -> None:
    """Only a probe shows that a group makes progress while others wait for it."""
    untried = replace(SLEEPS, forward_progress=False)
    assert len(plan_of(17, untried).launches) == 4
    graph = build(CHAIN.format(size=17))
    assert len(make_plan(graph, untried, KernelOptions(form="one")).launches) == 4


def test_every_kind_is_a_function_if_groups_claim_stages() -> None:
    """PoCL compiles the kernel's own body three times, including everything inlined into it."""
    text = plan_of(17, SLEEPS).program.text
    kinds = text.count("\nstatic void conv2d")
    assert text.count("noinline") - 1 == text.count("    case ") == kinds > 0


@pytest.mark.parametrize("form", ["one", "list"])
def test_uses_tuned_form(form: str) -> None:
    """The key is that of the list of launches, whichever form the plan has."""
    graph = build(CHAIN.format(size=17))
    listed = make_plan(graph, SLEEPS, KernelOptions(form="list"))
    choices = {form_key(listed.launches): form}
    plan = make_plan(graph, SLEEPS, KernelOptions(), choices)
    assert len(plan.launches) == (1 if form == "one" else 4)


def test_a_kernel_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []

    class Counting(Renderer):
        def text(self, entry: str) -> str:
            rendered.append(self.kernel.title)
            return super().text(entry)

    monkeypatch.setattr(renderer, "Renderer", Counting)
    monkeypatch.setattr(sharing, "render_stage", counted(rendered))
    for form in ("one", "list"):
        rendered.clear()
        make_plan(build(CHAIN.format(size=17)), SLEEPS, KernelOptions(form=form))
        assert len(rendered) == 4


def counted(rendered: list[str]) -> Callable[[StageFunction], str]:
    def render(stage: StageFunction) -> str:
        rendered.append(stage.kernel.title)
        return render_stage(stage)

    return render


def test_many_cores_keep_the_list() -> None:
    assert len(plan_of(17, replace(SLEEPS, compute_units=17)).launches) == 4


@pytest.mark.parametrize(
    ("counts", "parts", "axis"),
    [
        ((7, 5, 1), 2, 0),
        ((1, 4, 64), 4, 1),
        ((1, 2, 64), 4, 2),
        ((3, 2, 1), 4, 0),
        ((1, 1, 1), 2, 0),
        ((1, 3, 1), 1, 1),
    ],
)
def test_stage_is_divided_along_pixels_if_possible(
    counts: tuple[int, ...], parts: int, axis: int
) -> None:
    assert cut_axis(counts, parts) == axis


@pytest.mark.parametrize("units", [1, 2, 31, 32, 97])
def test_the_state_has_space_for_every_thread_and_counter(units: int) -> None:
    device = replace(SLEEPS, compute_units=units)
    known = STATE_STRIDE * (1 + units // STATE_STRIDE)
    assert 1 + units <= known
    words = PersistentKernel().state_bytes(5, device) // 4
    assert words == STATE_STRIDE + known + 5 * (1 + units) * STATE_STRIDE
