"""NodeContext: creates kernels for one node and hands out views of the node's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from fourfold.codegen.broadcast import load_for
from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.encoding import ByteRounding, PixelEncoding, byte_table
from fourfold.codegen.expression import Expression, Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Location
from fourfold.codegen.view import Finish, View
from fourfold.device import DeviceInfo
from fourfold.graph import Node
from fourfold.plan.layout import Arranged, ArrayLayout
from fourfold.types import MAX_FLOAT16, DType, TensorType

MAX_FP32_WEIGHTS = 1 << 16


@dataclass(frozen=True)
class KernelOptions:
    """Options for writing kernels: those of compilation that kernels depend on, and what lowering
    derives from the graph and the device. The precision may therefore differ from the requested.
    """

    precision: str = "fp32"
    literal: bool = False
    form: str = "auto"  # 'list' of launches, 'one' launch, or 'auto' as the device prefers
    keeps_small: bool = False  # in mixed precision, small values stay in fp32
    # in mixed precision, all values stay in fp32: together they are small
    keeps_values: bool = False
    counts_bytes: bool = False  # integers with at most 256 distinct values are stored as bytes
    streams: bool = False  # weights exceed the cache that persists between runs
    floats_as_fast: bool = False  # fp32 arithmetic is as fast as fp16
    counts_steps: bool = True  # values between two bounds may be stored as 16-bit steps
    saves_memory: bool = False  # leave out kernels that trade memory for speed
    clocked: bool = False  # stages of one launch record their times

    @property
    def real(self) -> str:
        """The kind that kernels compute with."""
        return "half" if self.precision == "fp16" else "float"

    @property
    def storage(self) -> DType:
        """The dtype in which weights and floats between kernels are stored."""
        return DType.F32 if self.precision == "fp32" else DType.F16

    def storage_of(self, elements: int, small: int) -> DType:
        """Return the dtype for this many elements.

        Small tensors save little memory as fp16, and rounding them costs accuracy.
        """
        return DType.F32 if self.spares and elements <= small else self.storage

    @property
    def spares(self) -> bool:
        """True if small tensors stay in fp32, because fp16 would gain little."""
        return self.keeps_small and self.precision == "mixed"


@dataclass(frozen=True)
class Target:
    """The target of code generation: a device, kernel options, and language features.

    Only those facts of the device count that the language can use (see `make_target`).
    """

    device: DeviceInfo
    options: KernelOptions
    capabilities: Capabilities

    @property
    def emulated(self) -> bool:
        """True if a CPU emulates the GPU and compiles kernels at every start."""
        return self.device.kind == "other" and self.capabilities.few_kernels


@dataclass(frozen=True)
class TailStep:
    """One pointwise operator of the tail; an input of None is the running result."""

    pointwise: Callable[..., Expression]
    attributes: object
    inputs: tuple[str | None, ...]


@dataclass(frozen=True, eq=False)
class Packed:
    """A constant in the form that a kernel reads; as an `image` if the device supports it.

    An image is read by fours, and not through a shifted pointer.
    """

    array: np.ndarray
    image: bool = False
    layout: ArrayLayout | None = None  # how it was arranged; None if that is not known


@dataclass(frozen=True)
class Scratch:
    """Memory shared by the kernels of one node, and used by no other node."""

    root: str
    bytes: int


def with_parameters(kernel: Kernel, attributes: object) -> Any:
    """Return the attributes, with the numbers named in PARAMETERS as parameters of the kernel.

    Nodes that differ only in these numbers then share one kernel text.
    """
    bound = getattr(attributes, "bound", None)
    if bound is not None:
        return bound(lambda inner: with_parameters(kernel, inner))
    names = getattr(attributes, "PARAMETERS", ())
    if not names:
        return attributes
    plain = {item.name: getattr(attributes, item.name) for item in fields(cast(Any, attributes))}
    numbers = {name: kernel.number(name, getattr(attributes, name)) for name in names}
    return SimpleNamespace(**{**plain, **numbers})


def _in_text(attributes: object) -> object:
    """Return the attributes as far as a kernel's text depends on them."""
    return "" if hasattr(attributes, "PARAMETERS") else attributes


class NodeContext:
    """One node with everything that its kernels depend on."""

    def __init__(
        self,
        node: Node,
        types: Mapping[str, TensorType],
        constants: Mapping[str, np.ndarray],
        locations: Mapping[str, Location],
        tail: tuple[TailStep, ...],
        target: Target,
    ) -> None:
        self.node, self.types, self.constants, self.locations = node, types, constants, locations
        self.tail, self.target = tail, target
        self.device, self.options = target.device, target.options
        self.capabilities = target.capabilities
        self.choice: str | None = None
        self.kernels: list[Kernel] = []

    def reshaped(
        self, types: Mapping[str, TensorType], locations: Mapping[str, Location]
    ) -> NodeContext:
        """Return this node with other shapes for the same memory; both collect the same kernels."""
        return self._share_kernels(
            NodeContext(
                node=self.node,
                types={**self.types, **types},
                constants=self.constants,
                locations={**self.locations, **locations},
                tail=self.tail,
                target=self.target,
            )
        )

    def with_tail(self, tail: tuple[TailStep, ...]) -> NodeContext:
        """Return this node with another tail; both collect the same kernels."""
        return self._share_kernels(
            NodeContext(
                node=self.node,
                types=self.types,
                constants=self.constants,
                locations=self.locations,
                tail=tail,
                target=self.target,
            )
        )

    def _share_kernels(self, context: NodeContext) -> NodeContext:
        context.choice, context.kernels = self.choice, self.kernels
        return context

    @property
    def attributes(self) -> object:
        return self.node.attributes

    @property
    def input(self) -> TensorType:
        return self.input_type(0)

    @property
    def output(self) -> TensorType:
        return self.types[self.node.outputs[0]]

    @property
    def key(self) -> str:
        """Describes the computation and its layouts: equal keys can share a tuned choice."""
        reads = [self._describe(name) for name in self.node.reads]
        writes = [self._describe(name) for name in self.node.outputs]
        tail = "".join(f" |> {step.op} {_in_text(step.attributes)}" for step in self.node.tail)
        return (
            f"{self.node.op} {self.node.attributes}{tail} : {', '.join(reads)}"
            f" -> {', '.join(writes)} ({self.options.precision})"
        )

    def _describe(self, name: str) -> str:
        if name in self.constants:
            return f"constant {self.types[name]}"
        location = self.locations[name]
        return f"{self.types[name]} as {location.layout.value} {location.dtype.value}"

    def input_type(self, index: int) -> TensorType:
        name = self.node.inputs[index]
        assert name is not None
        return self.types[name]

    def array(self, index: int) -> np.ndarray | None:
        """Return the value of a constant input; None if it is absent or computed."""
        if index >= len(self.node.inputs):
            return None
        name = self.node.inputs[index]
        return None if name is None else self.constants.get(name)

    def kernel(self, title: str, sums: bool = False) -> Kernel:
        """Add a new entry point; kernels of a node run in the order in which they are created.

        A kernel that `sums` values it reads only once computes in fp32 in any precision: long fp16
        sums overflow or stagnate, and such a kernel is memory-bound anyway.
        """
        real = "float" if sums else self.options.real
        kernel = Kernel(title, self.options.literal, real)
        kernel.packs = self.device.packs_bytes and self.options.counts_bytes
        kernel.short = self.capabilities.few_kernels
        kernel.subgroup_size = self.capabilities.subgroups.get(self.device.subgroups, 1)
        self.kernels.append(kernel)
        return kernel

    def read(self, kernel: Kernel, index: int, title: str = "src") -> View:
        name = self.node.inputs[index]
        assert name is not None
        return self.view(kernel, name, title)

    @property
    def counts_bytes(self) -> bool:
        """True if the last step of the tail rounds to the bytes that are stored as the result."""
        location, last = self.locations[self.node.outputs[0]], self.tail[-1:]
        sliced = (
            location.layout is Layout.SLICED
            and location.dtype is DType.U8
            and location.scale == 1.0
        )
        if not (self.device.packs_bytes and self.options.counts_bytes and sliced and last):
            return False
        rounding = cast(Any, last[0].attributes)
        return getattr(rounding, "counts", False) and bool(rounding.low == -location.zero_point)

    def write(
        self, kernel: Kernel, index: int = 0, title: str = "dst", counted: bool = False
    ) -> View:
        """Return the view of a result; values stored through it go through the tail first.

        With `counted`, `store_four` rounds to bytes instead of the tail's last step.
        """
        view = self.view(kernel, self.node.outputs[index], title, writable=True)
        if self.tail and index == 0:
            extras = {name: None for step in self.tail for name in step.inputs if name is not None}
            views = {name: self.view(kernel, name, "extra") for name in extras}
            view.finish = self._tail(view, views, counted)
        if counted:
            view.counting = ByteRounding(kernel, cast(Any, self.tail[-1].attributes))
        return view

    def view(self, kernel: Kernel, name: str, title: str, writable: bool = False) -> View:
        location = self.locations[name]
        pointer = kernel.pointer(title, location.dtype, location, writable)
        view = View(kernel, pointer, self.types[name], location)
        if isinstance(view.steps, PixelEncoding) and self.device.is_cpu:
            view.steps.table = self.packed(kernel, "table", byte_table(location.channels))
        return view

    def packed(
        self, kernel: Kernel, title: str, array: np.ndarray | Arranged, image: bool = False
    ) -> Pointer:
        """Return a pointer to a constant packed for this kernel."""
        array, layout = array if isinstance(array, Arranged) else (array, None)
        packed = Packed(np.ascontiguousarray(array), image, layout)
        return kernel.pointer(title, DType.of(array), packed)

    def weights(
        self, kernel: Kernel, title: str, weights: Arranged, image: bool = False
    ) -> Pointer:
        """Return a pointer to weights, stored in the precision of the options."""
        array = weights.array
        storage = self.options.storage_of(array.size, MAX_FP32_WEIGHTS)
        if storage is DType.F16 and np.abs(array).max(initial=0.0) > MAX_FLOAT16:
            storage = DType.F32
        elif self.options.spares and np.array_equal(array, array.astype(np.float16)):
            storage = DType.F16  # lossless: many files contain fp16 weights
        return self.packed(kernel, title, weights.astype(storage.numpy), image)

    def scratch(self, title: str, dtype: DType, elements: int) -> Scratch:
        """Return memory shared by the kernels of this node, for use with `Kernel.pointer`."""
        root = f"{self.node.outputs[0]}/{title}"
        while root in self.types:
            root += "_"
        return Scratch(root, elements * dtype.size)

    def _tail(self, target: View, views: Mapping[str, View], counted: bool) -> Finish:
        """Return the tail as a function of the running result and its position."""
        steps = self.tail[:-1] if counted else self.tail
        bound = [with_parameters(target.kernel, step.attributes) for step in steps]

        def finish(
            value: Expression,
            pixel: Expression,
            slice_: Expression,
            run: int,
            slices: int = 1,
        ) -> Expression:
            for step, attributes in zip(steps, bound, strict=True):
                operands = [
                    value
                    if name is None
                    else load_for(views[name], target, pixel, slice_, run, slices)
                    for name in step.inputs
                ]
                value = step.pointwise(attributes, *operands)
            return value

        return finish
