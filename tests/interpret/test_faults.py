"""Every fault that the interpreter detects, in a kernel that has it and in a correct twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tree_plans import Arrays, floats, kernel_of, plan_of, play

from fourfold.backends.interpreter.player import Player
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.expression import const, convert, guarded, load, maximum, name
from fourfold.codegen.intrinsics import (
    load_bytes,
    load_double_words,
    load_words,
    load_words_streamed,
    subgroup_exchange,
    subgroup_shift,
)
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import MatrixMultiply, WarpgroupMultiply
from fourfold.codegen.tree.parse import parse
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import BufferUse, Plan
from fourfold.types import DType, TensorType

COUNT = 8
X = np.arange(COUNT, dtype=np.float32)
GIVEN = {"src": X}
WANTED = {"dst": f"f32[{COUNT}]"}
Made = tuple[Plan, Arrays]
Make = Callable[[bool], Made]


@dataclass(frozen=True)
class Fault:
    """A kernel with or without a fault, and the message that reports it."""

    make: Make
    says: tuple[str, ...]
    device: DeviceInfo = NULL_GPU


def alone(kernel: Kernel, expected: dict[str, str] | None = None, given: Arrays = GIVEN) -> Made:
    return plan_of([kernel], given, WANTED if expected is None else expected), given


def reads_behind_the_end(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("reader", (COUNT,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    value = load(source, x + 16, "float")
    kernel.store(target, x, value if faulty else guarded(x + 16 < COUNT, value))
    return alone(kernel)


def reads_before_the_start(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("reader", (COUNT,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    index = x - 1 if faulty else maximum(x - 1, 0)
    kernel.store(target, x, load(source, index, "float"))
    return alone(kernel)


def writes_behind_the_end(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("writer", (COUNT * 4,))
    target = floats(kernel, "dst", True)
    with kernel.when(const(True) if faulty else x < COUNT):
        kernel.store(target, x, convert(x, "float"))
    return alone(kernel)


def reads_words_outside(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("words", (COUNT,))
    source = kernel.pointer("src", DType.F16, None)
    target = kernel.pointer("dst", DType.I32, None, True)
    inside = const(True) if faulty else x < 4
    pair = kernel.let(load_words(source, x + 4, inside), "pair")
    four = kernel.let(load_double_words(source, x * 8, inside), "four")
    kernel.store(target, x, convert(pair.lane(0), "int") + convert(four.lane(3), "int"))
    return alone(kernel, {"dst": "i32[8]"}, {"src": np.ones(32, np.float16)})


def reads_memory_that_nobody_wrote(faulty: bool) -> Made:
    first, (x,) = kernel_of("writer", (COUNT if not faulty else COUNT - 1,))
    middle = floats(first, "middle", True)
    first.store(middle, x, convert(x, "float"))
    second, (x,) = kernel_of("reader", (COUNT,))
    middle, target = floats(second, "middle"), floats(second, "dst", True)
    second.store(target, x, load(middle, x, "float"))
    return plan_of([first, second], {}, WANTED, {"middle": f"f32[{COUNT}]"}), {}


def reads_a_vector_of_which_a_part_is_written(faulty: bool) -> Made:
    first, (x,) = kernel_of("writer", (COUNT,))
    middle = first.pointer("middle", DType.F16, None, True)
    with first.when(x.differs(5) if faulty else const(True)):
        first.store(middle, x, convert(x, "float"))
    second, (x,) = kernel_of("reader", (COUNT // 4,))
    middle, target = second.pointer("middle", DType.F16, None), floats(second, "dst", True)
    second.store(target, x, load(middle, x, "float", 4))
    return plan_of([first, second], {}, WANTED, {"middle": f"f16[{COUNT}]"}), {}


def reads_local_memory_that_nobody_wrote(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (COUNT,), (4,))
    shared = kernel.local_array("shared", "float", 1, 4)
    lane = kernel.local_id(0)
    with kernel.when(lane < (3 if faulty else 4)):
        kernel.store(shared, lane, convert(x, "float"))
    kernel.barrier()
    kernel.store(floats(kernel, "dst", True), x, load(shared, const(3) - lane, "float"))
    return alone(kernel, given={})


def reads_an_array_that_nobody_filled(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("array", (COUNT,))
    own = kernel.private_array("own", DType.F32, 4)
    with kernel.loop(3 if faulty else 4) as i:
        kernel.store(own, i, convert(i, "float"))
    kernel.store(floats(kernel, "dst", True), x, load(own, x % 4, "float"))
    return alone(kernel, given={})


def leaves_an_output_unwritten(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("writer", (COUNT,))
    with kernel.when(x.differs(3) if faulty else x >= 0):
        kernel.store(floats(kernel, "dst", True), x, const(1.0))
    return alone(kernel, given={})


def two_groups_write(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("writers", (COUNT,))
    value = convert(x, "float") if faulty else const(5.0)
    kernel.store(floats(kernel, "dst", True), x * 0, value)
    return alone(kernel, {"dst": "f32[1]"}, {})


def two_loops_write(faulty: bool) -> Made:
    """The loops do not run at the same moment here, but nothing guarantees their order."""
    kernel, (x,) = kernel_of("writers", (2,))
    target = floats(kernel, "dst", True)
    kernel.store(target, x, const(1.0))
    kernel.store(target, 1 - x if faulty else x, const(2.0))
    return alone(kernel, {"dst": "f32[2]"}, {})


def one_reads_what_another_writes(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("in_place", (COUNT,))
    target = floats(kernel, "dst", True)
    kernel.store(target, x, const(1.0))
    near = load(target, (x + 1) % COUNT if faulty else x, "float")
    kernel.store(floats(kernel, "also", True), x, near)
    return alone(kernel, {**WANTED, "also": "f32[8]"}, {})


def one_writes_what_others_read(faulty: bool) -> Made:
    first, (x,) = kernel_of("fill", (COUNT,))
    first.store(floats(first, "middle", True), x, convert(x, "float"))
    kernel, (x,) = kernel_of("in_place", (COUNT,))
    middle = floats(kernel, "middle", True)
    all_of_it = kernel.let(load(middle, const(7) - x if faulty else x, "float"), "read")
    kernel.store(middle, x, all_of_it + 1.0)
    kernel.store(floats(kernel, "dst", True), x, all_of_it)
    return plan_of([first, kernel], {}, WANTED, {"middle": "f32[8]"}), {}


def a_barrier_does_not_order_global_memory(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (4,), (4,))
    target = floats(kernel, "dst", True)
    kernel.store(target, x, convert(x, "float"))
    kernel.barrier()
    near = load(target, (x + 1) % 4 if faulty else x, "float")
    kernel.store(floats(kernel, "also", True), x, near)
    return alone(kernel, {"dst": "f32[4]", "also": "f32[4]"}, {})


def no_barrier_between_write_and_read(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (COUNT,), (4,))
    shared, lane = kernel.local_array("shared", "float", 1, 4), kernel.local_id(0)
    kernel.store(shared, lane, convert(x, "float"))
    if not faulty:
        kernel.barrier()
    kernel.store(floats(kernel, "dst", True), x, load(shared, const(3) - lane, "float"))
    return alone(kernel, given={})


def no_barrier_between_read_and_write(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (COUNT,), (4,))
    shared, lane = kernel.local_array("shared", "float", 1, 4), kernel.local_id(0)
    kernel.store(shared, lane, convert(x, "float"))
    kernel.barrier()
    near = kernel.let(load(shared, const(3) - lane, "float"), "near")
    if not faulty:
        kernel.barrier()
    kernel.store(shared, lane, near)
    kernel.store(floats(kernel, "dst", True), x, near)
    return alone(kernel, given={})


def two_of_a_group_write(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (COUNT,), (4,))
    shared, lane = kernel.local_array("shared", "float", 1, 2), kernel.local_id(0)
    kernel.store(shared, lane // 2, convert(lane if faulty else lane // 2, "float"))
    kernel.barrier()
    kernel.store(floats(kernel, "dst", True), x, load(shared, lane % 2, "float"))
    return alone(kernel, given={})


def a_barrier_for_some(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (COUNT,), (4,))
    lane = kernel.local_id(0)
    with kernel.when(lane < 3 if faulty else x < 4):  # a whole group may skip the barrier
        kernel.barrier()
    kernel.store(floats(kernel, "dst", True), x, convert(x, "float"))
    return alone(kernel, given={})


def a_barrier_behind_those_who_left(faulty: bool) -> Made:
    kernel = Kernel("group", literal=True)
    (x,) = kernel.ids(COUNT - 1 if faulty else COUNT, local=(4,))
    kernel.barrier()
    kernel.store(floats(kernel, "dst", True), x, convert(x, "float"))
    return alone(kernel, {"dst": "f32[7]"} if faulty else None, {})


def a_loop_that_some_leave_early(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("group", (COUNT,), (4,))
    with kernel.loop(kernel.local_id(0) + 1 if faulty else x // 4 + 1):
        kernel.barrier()
    kernel.store(floats(kernel, "dst", True), x, convert(x, "float"))
    return alone(kernel, given={})


def a_vector_across_a_bound(faulty: bool) -> Made:
    kernel, _ = kernel_of("vectors", (1,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    near = kernel.shifted(source, 2 if faulty else 4, 1, "near")
    kernel.store(target, 0, load(near, 0, "float", 4))
    return alone(kernel, {"dst": "f32[4]"})


def an_offset_across_a_bound(faulty: bool) -> Made:
    kernel, _ = kernel_of("vectors", (1,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    kernel.store(target, 0, load(source, 0, "float", 4))
    return plan_of([kernel], GIVEN, {"dst": "f32[4]"}, offsets={"src": 2 if faulty else 4}), GIVEN


def words_across_a_bound(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("words", (2,))
    source = kernel.pointer("src", DType.F16, None)
    target = kernel.pointer("dst", DType.I32, None, True)
    words = load_words_streamed(source, x * 4 + (2 if faulty else 4))
    kernel.store(target, x, convert(kernel.let(words, "words").lane(0), "int"))
    return alone(kernel, {"dst": "i32[2]"}, {"src": np.ones(16, np.float16)})


def divides_by_zero(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("divide", (COUNT,))
    divisor = x - 3
    value = guarded(const(True) if faulty else divisor.differs(0), const(40) / divisor, 1)
    kernel.store(floats(kernel, "dst", True), x, convert(value, "float"))
    return alone(kernel, given={})


def a_matrix_by_a_part_of_a_warp(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("matrix", (64,), (64,))
    total, zero = kernel.variable(const(0.0, "float", 4), "total"), const(0, "uint", 2)
    with kernel.when(x < (40 if faulty else 32)):
        kernel.emit(MatrixMultiply(total, zero, zero, zero))
    kernel.store(floats(kernel, "dst", True), x, total)
    return alone(kernel, {"dst": "f32[256]"}, {})


def a_matrix_without_a_warp(faulty: bool) -> Made:
    size = 16 if faulty else 32
    kernel, (x,) = kernel_of("matrix", (size,), (size,))
    total, zero = kernel.variable(const(0.0, "float", 4), "total"), const(0, "uint", 2)
    kernel.emit(MatrixMultiply(total, zero, zero, zero))
    kernel.store(floats(kernel, "dst", True), x, total)
    return alone(kernel, {"dst": f"f32[{size * 4}]"}, {})


def a_matrix_without_four_warps(faulty: bool) -> Made:
    return in_local_memory(64 if faulty else 128, written=128)


def a_matrix_that_is_not_there(faulty: bool) -> Made:
    return in_local_memory(128, written=127 if faulty else 128)


def in_local_memory(items: int, written: int) -> Made:
    """A product of 64 rows and 64 columns, of whose 128 pieces only some were written."""
    kernel, (x,) = kernel_of("matrix", (items,), (items,))
    local = kernel.local_array("pieces", "uint", 4, 128)
    with kernel.loop(const(written), x, items, title="piece") as piece:
        kernel.store(local, piece, const(0, "uint", 4))
    kernel.barrier()
    sums = tuple(kernel.variable(const(0.0, "float", 4), "sum") for _ in range(8))
    places = (const(0), const(0), const(64), const(64))
    kernel.emit(WarpgroupMultiply(local, local, *places, sums))
    kernel.store(floats(kernel, "dst", True), x, sums[0])
    return alone(kernel, {"dst": f"f32[{items * 4}]"}, {})


def asks_one_who_does_not_take_part(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("exchange", (32,), (32,))
    value = kernel.variable(convert(x, "float"), "value")
    with kernel.when(x < (15 if faulty else 16)):
        kernel.set(value, subgroup_exchange(value, 1))
    kernel.store(floats(kernel, "dst", True), x, value)
    return alone(kernel, {"dst": "f32[32]"}, {})


def asks_beyond_its_subgroup(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("exchange", (32,), (32,))
    value = subgroup_exchange(kernel.let(convert(x, "float"), "mine"), 16 if faulty else 8)
    kernel.store(floats(kernel, "dst", True), x, value)
    return alone(kernel, {"dst": "f32[32]"}, {})


def takes_from_one_who_does_not_take_part(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("shift", (32,), (32,))
    source, target = (
        kernel.pointer("src", DType.F16, None),
        kernel.pointer("dst", DType.I32, None, True),
    )
    words = kernel.variable(load_words(source, x), "words")
    with kernel.when(x.differs(9) if faulty else x >= 0):
        kernel.set(words, subgroup_shift(words, 4))
    kernel.store(target, x, convert(words.lane(0), "int"))
    return alone(kernel, {"dst": "i32[32]"}, {"src": np.zeros(128, np.float16)})


def reads_an_input_too_early(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("stage", (COUNT,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    if not faulty:
        kernel.await_inputs()
    value = kernel.let(load(source, x, "float"), "value")
    if faulty:
        kernel.await_inputs()
    kernel.store(target, x, value)
    return alone(kernel)


def writes_too_early(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("stage", (COUNT,))
    target = floats(kernel, "dst", True)
    if not faulty:
        kernel.await_inputs()
    kernel.store(target, x, const(1.0))
    if faulty:
        kernel.await_inputs()
    return alone(kernel, given={})


def reads_what_the_host_has_not_brought(faulty: bool) -> Made:
    items = 2048  # two pieces
    kernel, (x,) = kernel_of("fetch", (items,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    kernel.await_host(const(1) if faulty else x // 1024 + 1, x < 1)
    kernel.store(target, x, load(source, x, "float"))
    given = {"src": np.arange(items, dtype=np.float32)}
    plan = plan_of([kernel], given, {"dst": f"f32[{items}]"})
    buffers = [one._replace(kind="host") if one.name == "src" else one for one in plan.buffers]
    return replace(plan, buffers=tuple(buffers)), given


def reads_beyond_an_image(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("texels", (4,))
    weights, target = floats(kernel, "weights"), floats(kernel, "dst", True)
    kernel.store(target, x, load(weights, x, "float", 4))
    plan = plan_of([kernel], {"weights": np.zeros(64, np.float32)}, {"dst": "f32[16]"})
    use = BufferUse(1, 0, TensorType(DType.F32, (3 if faulty else 4, 4)))
    (launch,) = plan.launches
    arguments = (use, *launch.arguments[1:])
    return replace(plan, launches=(launch._replace(arguments=arguments),)), {
        "weights": np.zeros(64, np.float32)
    }


def goes_round_for_ever(faulty: bool) -> Made:
    kernel, (x,) = kernel_of("loop", (COUNT,))
    total = kernel.variable(const(0.0), "total")
    with kernel.loop(COUNT, step=x % 3 + (0 if faulty else 1)):
        kernel.add(total, 1.0)
    kernel.store(floats(kernel, "dst", True), x, total)
    return alone(kernel, given={})


KHR = replace(NULL_GPU, subgroups="khr")
FAULTS = {
    "reads behind the end": Fault(
        reads_behind_the_end, ("'src' out of bounds", "element 16", "work-item (0, 0, 0)")
    ),
    "reads before the start": Fault(reads_before_the_start, ("'src' out of bounds", "element -1")),
    "writes behind the end": Fault(writes_behind_the_end, ("writes 'dst' out of bounds", "16")),
    "reads words outside": Fault(reads_words_outside, ("'src' out of bounds", "elements 32 to 35")),
    "never written": Fault(
        reads_memory_that_nobody_wrote, ("uninitialized memory of 'middle'", "element 7")
    ),
    "partly written": Fault(
        reads_a_vector_of_which_a_part_is_written,
        ("uninitialized memory of 'middle'", "element 5"),
    ),
    "local memory never written": Fault(
        reads_local_memory_that_nobody_wrote, ("uninitialized memory of 'shared'", "element 3")
    ),
    "array never written": Fault(
        reads_an_array_that_nobody_filled, ("uninitialized memory of 'own'", "element 3")
    ),
    "output never written": Fault(leaves_an_output_unwritten, ("output 'dst'", "element 3 of 8")),
    "two groups write": Fault(two_groups_write, ("has a data race on 'dst'", "element 0")),
    "two write in turn": Fault(
        two_loops_write,
        ("has a data race on 'dst'", "work-item (0, 0, 0) of group (0, 0, 0)", "accessed"),
    ),
    "reads what is written": Fault(
        one_reads_what_another_writes, ("has a data race on 'dst'", "wrote")
    ),
    "writes what is read": Fault(
        one_writes_what_others_read, ("has a data race on 'middle'", "accessed")
    ),
    "barrier and global memory": Fault(
        a_barrier_does_not_order_global_memory, ("has a data race on 'dst'", "wrote")
    ),
    "no barrier after a write": Fault(
        no_barrier_between_write_and_read,
        ("has a data race on 'shared'", "of the same group wrote"),
    ),
    "no barrier after a read": Fault(
        no_barrier_between_read_and_write, ("has a data race on 'shared'", "accessed")
    ),
    "two of a group write": Fault(
        two_of_a_group_write, ("has a data race on 'shared'", "element 0")
    ),
    "barrier for some": Fault(a_barrier_for_some, ("a divergent barrier",)),
    "barrier behind a leave": Fault(a_barrier_behind_those_who_left, ("a divergent barrier",)),
    "barrier in a loop": Fault(a_loop_that_some_leave_early, ("a divergent barrier",)),
    "misaligned vector": Fault(
        a_vector_across_a_bound, ("'near' at a misaligned vector", "2 after a multiple of 4")
    ),
    "misaligned offset": Fault(an_offset_across_a_bound, ("'src' at a misaligned vector",)),
    "misaligned words": Fault(
        words_across_a_bound, ("'src' at a misaligned vector", "element 2, 2")
    ),
    "division by zero": Fault(divides_by_zero, ("divides by zero", "of group (3, 0, 0)")),
    "part of a warp": Fault(
        a_matrix_by_a_part_of_a_warp, ("with a partially active warp", "(32, 0, 0)")
    ),
    "no warp": Fault(a_matrix_without_a_warp, ("has incomplete warps", "group of 16")),
    "no four warps": Fault(a_matrix_without_four_warps, ("has incomplete warps", "group of 64")),
    "no matrix": Fault(a_matrix_that_is_not_there, ("pieces", "never written")),
    "absent neighbour": Fault(
        asks_one_who_does_not_take_part, ("exchanges with a missing work-item", "(14, 0, 0)"), KHR
    ),
    "far neighbour": Fault(asks_beyond_its_subgroup, ("exchanges with a missing work-item",), KHR),
    "absent line": Fault(
        takes_from_one_who_does_not_take_part, ("with a missing work-item", "(5, 0, 0)")
    ),
    "early read": Fault(reads_an_input_too_early, ("reads 'src' too early", "awaits its inputs")),
    "early write": Fault(writes_too_early, ("writes 'dst' too early",)),
    "not brought": Fault(reads_what_the_host_has_not_brought, ("'src' too early", "element 1024")),
    "texels": Fault(reads_beyond_an_image, ("'weights' out of bounds", "elements 12 to 15")),
    "endless loop": Fault(goes_round_for_ever, ("an endless loop", "(0, 0, 0)")),
}


@pytest.mark.parametrize("title", FAULTS)
def test_a_fault_is_found(title: str) -> None:
    fault = FAULTS[title]
    plan, given = fault.make(True)
    with pytest.raises(DeviceError) as found:
        play(plan, given, fault.device)
    for words in fault.says:
        assert words in str(found.value)
    if not title.startswith("output"):
        assert plan.launches[-1].entry in found.value.what


@pytest.mark.parametrize("title", FAULTS)
def test_its_sound_twin_passes(title: str) -> None:
    fault = FAULTS[title]
    plan, given = fault.make(False)
    results = play(plan, given, fault.device)
    assert not any(np.isnan(array).any() for array in results.values())


def test_bytes_may_lie_anywhere() -> None:
    kernel, (x,) = kernel_of("bytes", (5,))
    source, target = kernel.pointer("src", DType.U8, None), floats(kernel, "dst", True)
    kernel.store(target, x, load_bytes(source, x))
    given = {"src": np.arange(12, dtype=np.uint8)}
    found = play(plan_of([kernel], given, {"dst": "f32[40]"}), given)["dst"]
    np.testing.assert_array_equal(found.reshape(5, 8), np.arange(5)[:, None] + np.arange(8.0))


def test_memory_is_unwritten_again_in_the_next_run() -> None:
    """Data from an earlier run must not be relied on."""
    first, (x,) = kernel_of("writer", (COUNT,))
    source, middle = floats(first, "src"), floats(first, "middle", True)
    with first.when(load(source, 0, "float") > 0.0):
        first.store(middle, x, convert(x, "float"))
    second, (x,) = kernel_of("reader", (COUNT,))
    second.store(floats(second, "dst", True), x, load(floats(second, "middle"), x, "float"))
    given = {"src": np.ones(1, np.float32)}
    player = Player(NULL_GPU, plan_of([first, second], given, WANTED, {"middle": "f32[8]"}))
    player.run([given["src"]])
    with pytest.raises(DeviceError, match="uninitialized memory of 'middle'"):
        player.run([-given["src"]])


def test_an_illegal_kernel_is_refused_before_it_runs() -> None:
    kernel, (x,) = kernel_of("illegal", (COUNT,))
    kernel.store(floats(kernel, "dst", True), convert(x, "float"), const(1.0))
    with pytest.raises(BuildError, match=r"Store.*float1.*does not fit"):
        play(*alone(kernel, given={}))


def test_a_text_that_is_no_tree_is_refused() -> None:
    kernel, (x,) = kernel_of("illegal", (COUNT,))
    kernel.store(floats(kernel, "dst", True), name("unknown", "int") + x, const(1.0))
    with pytest.raises(BuildError, match="unknown"):
        play(*alone(kernel, given={}))
    with pytest.raises(BuildError, match="parentheses"):
        parse('(kernel one_0 "one" float')
