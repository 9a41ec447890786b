"""Kernels as text of their trees: parsing restores the same kernel, for every language."""

from __future__ import annotations

import pytest
from fake_devices import IMAGES, NVIDIA, X86
from op_kernels import WITH_KERNELS, all_kernels, op_graph
from ops.test_dots import GRIDS, network

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.expression import Expression, const, load
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.opencl.language import LANGUAGE as OPENCL
from fourfold.codegen.statement import Statement
from fourfold.codegen.tree.parse import parse
from fourfold.codegen.tree.render import render
from fourfold.codegen.walk import statements
from fourfold.errors import BuildError
from fourfold.types import DType

SETTINGS = ((NVIDIA, "mixed"), (X86, "fp32"), (NULL_GPU, "fp16"))


def read_back(kernel: Kernel, images: frozenset[str] = frozenset()) -> Kernel:
    """Return the kernel parsed from its text, after checking that both render alike in two
    languages.
    """
    text = render(kernel, "entry", images)
    (entry,) = parse(text).entries
    assert (entry.name, entry.images) == ("entry", images)
    assert render(entry.kernel, "entry", images) == text
    again = OPENCL.render(entry.kernel, "entry", images)
    assert again == OPENCL.render(kernel, "entry", images)
    return entry.kernel


def shape(item: object, seen: dict[int, int]) -> object:
    """Return an expression as plain data; an expression seen before becomes its number."""
    if not isinstance(item, Expression):
        return item
    if item.op not in ("const", "name"):
        if id(item) in seen:
            return seen[id(item)]
        seen[id(item)] = len(seen)
    return item.op, item.kind, item.width, [shape(part, seen) for part in item.operands]


def tree_of(kernel: Kernel) -> list[object]:
    """Return all statements as plain data."""
    seen: dict[int, int] = {}

    def data(statement: Statement) -> object:
        parts = [value for value in vars(statement).values() if not isinstance(value, list)]
        return type(statement), [shape(part, seen) for part in parts]

    return [data(statement) for statement in statements(kernel.body)]


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_kernels_of_ops(name: str) -> None:
    graph = op_graph(name)
    for device, precision in SETTINGS:
        for kernel in all_kernels(graph, device, KernelOptions(precision)):
            assert tree_of(read_back(kernel)) == tree_of(kernel)


def test_kernels_of_bytes() -> None:
    for kernel in all_kernels(network(GRIDS[1], 16, 2, odd=143), X86, KernelOptions()):
        assert tree_of(read_back(kernel)) == tree_of(kernel)


def test_images_are_part_of_it() -> None:
    (kernel, *_) = all_kernels(op_graph("conv2d"), IMAGES, KernelOptions())
    weights = next(one.pointer.name for one in kernel.buffers if one.pointer.name == "weights")
    assert f"(buffer {weights} f32 image)" in render(kernel, "entry", frozenset((weights,)))
    read_back(kernel, frozenset((weights,)))


def test_unusual_numbers() -> None:
    kernel = Kernel("numbers", literal=True)
    target = kernel.pointer("dst", DType.F32, None, writable=True)
    numbers = (0.1, 1e-45, -1e30, float("inf"), float("-inf"), float("nan"), 3.0)
    for place, number in enumerate(numbers):
        kernel.store(target, place, const(number) * load(target, place, "float"))
    kernel.let(const(True, "bool", 4).lane(0))
    kernel.let(const(-(2**31)) + load(target, 0, "int"))
    read_back(kernel)


def test_a_title_may_hold_anything() -> None:
    kernel = Kernel('a "title" (with) \\ signs', literal=True)
    assert read_back(kernel).title == kernel.title


def test_shared_node_stays_shared() -> None:
    kernel = Kernel("shared", literal=True)
    source = kernel.pointer("src", DType.F32, None)
    value = load(source, 1, "float") + 1.0
    kernel.let(value * value, "square")
    text = render(kernel, "entry")
    assert "(*:float #0=(+:float (load:float src 1) 1.0) #0#)" in text
    (declared,) = read_back(kernel).body
    first, second = declared.value.operands
    assert first is second


@pytest.mark.parametrize(
    "text",
    [
        '(kernel a "a" float (let x:int (+:int 1 2)',
        '(kernel a "a" float (let x (+:int 1 2)))',
        '(kernel a "a" float (let x:int (+:int y 2)))',
        '(kernel a "a" float (let x:int #0#))',
        '(kernel a "a" float (jump 3))',
        '(kernel a "a" float (buffer b f31))',
        "(kernel a)",
    ],
)
def test_rejects_malformed_text(text: str) -> None:
    with pytest.raises(BuildError, match="not a valid kernel tree"):
        parse(text)
