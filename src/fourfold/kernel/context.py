"""NodeContext: the spot where one node becomes kernels. It hands out views of the node's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.graph import Node
from fourfold.kernel.broadcast import load_for
from fourfold.kernel.byte_rounding import ByteRounding
from fourfold.kernel.capabilities import Capabilities
from fourfold.kernel.encoding import PixelEncoding, byte_table
from fourfold.kernel.expression import Expression, Pointer
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Layout, Location
from fourfold.kernel.view import Finish, View
from fourfold.types import LARGEST_HALF, DType, TensorType

SMALL_WEIGHTS = 1 << 16


@dataclass(frozen=True)
class KernelOptions:
    """How kernels are to be written: precision of arithmetic and storage, sizes as numbers or
    parameters.
    """

    precision: str = "fp32"
    literal: bool = False
    form: str = "auto"  # 'list' of launches, 'one' launch, or as the device likes
    keeps_small: bool = False  # in mixed precision, what is small stays in full precision
    keeps_values: bool = False  # in mixed precision, all values do: together they are small
    counts_bytes: bool = False  # whole numbers of at most 256 kinds are kept as bytes
    streams: bool = False  # weights are more than a cache keeps from run to run
    floats_as_fast: bool = False  # as arithmetic in halves would be
    counts_steps: bool = True  # numbers between two bounds may be kept as 16-bit steps
    saves_memory: bool = False  # kernels that buy speed with memory are left out
    clocked: bool = False  # stages of one launch note their times

    @property
    def real(self) -> str:
        """The kind that kernels compute with."""
        return "half" if self.precision == "fp16" else "float"

    @property
    def storage(self) -> DType:
        """The type in which floats between kernels, and the weights, are kept."""
        return DType.F32 if self.precision == "fp32" else DType.F16

    def storage_of(self, elements: int, small: int) -> DType:
        """The same for so many of them: what is small costs little as it is, and rounding much."""
        return DType.F32 if self.spares and elements <= small else self.storage

    @property
    def spares(self) -> bool:
        """Whether precision is kept where halves would gain little."""
        return self.keeps_small and self.precision == "mixed"


@dataclass(frozen=True)
class Target:
    """For what kernels are written: a device, of which only those facts count that the language can
    use (`make_target`), how they are to be written, and what the language can say.
    """

    device: DeviceInfo
    options: KernelOptions
    capabilities: Capabilities

    @property
    def emulated(self) -> bool:
        """Whether a processor stands in for the GPU that kernels are written for, and compiles
        them at every start.
        """
        return self.device.kind == "other" and self.capabilities.few_kernels


@dataclass(frozen=True)
class TailStep:
    """One pointwise op of the tail, ready to be written: None stands for the running result."""

    pointwise: Callable[..., Expression]
    attributes: object
    inputs: tuple[str | None, ...]


@dataclass(frozen=True, eq=False)
class Packed:
    """A constant in the form that a kernel wants it; as an `image`, where the device has one as
    large. Then the kernel must read it by fours, and not by a pointer further on.
    """

    array: np.ndarray
    image: bool = False


@dataclass(frozen=True)
class Scratch:
    """Memory that the kernels of one node share and nobody else looks at."""

    root: str
    bytes: int


def with_parameters(kernel: Kernel, attributes: object) -> Any:
    """The attributes, with those numbers that they call PARAMETERS as parameters of the kernel.

    Nodes that differ in nothing else then share one text.
    """
    bound = getattr(attributes, "bound", None)
    if bound is not None:
        return bound(lambda inner: with_parameters(kernel, inner))
    names = getattr(attributes, "PARAMETERS", ())
    if not names:
        return attributes
    known = {item.name: getattr(attributes, item.name) for item in fields(cast(Any, attributes))}
    numbers = {name: kernel.number(name, getattr(attributes, name)) for name in names}
    return SimpleNamespace(**{**known, **numbers})


def _in_text(attributes: object) -> object:
    """The attributes, as far as a kernel's text depends on them."""
    return "" if hasattr(attributes, "PARAMETERS") else attributes


class NodeContext:
    """One node with all that its kernels may know."""

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
        """The same node with other shapes for the same memory; its kernels are this one's."""
        known = ({**self.types, **types}, self.constants, {**self.locations, **locations})
        return self._changed(NodeContext(self.node, *known, self.tail, self.target))

    def with_tail(self, tail: tuple[TailStep, ...]) -> NodeContext:
        """The same node with something else behind it; its kernels are this one's."""
        known = (self.types, self.constants, self.locations)
        return self._changed(NodeContext(self.node, *known, tail, self.target))

    def _changed(self, made: NodeContext) -> NodeContext:
        made.choice, made.kernels = self.choice, self.kernels
        return made

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
        """What is computed here, and how its values lie: equal keys can share a tuned choice."""
        reads = [self._described(name) for name in self.node.reads]
        writes = [self._described(name) for name in self.node.outputs]
        tail = "".join(f" |> {step.op} {_in_text(step.attributes)}" for step in self.node.tail)
        return (
            f"{self.node.op} {self.node.attributes}{tail} : {', '.join(reads)}"
            f" -> {', '.join(writes)} ({self.options.precision})"
        )

    def _described(self, name: str) -> str:
        if name in self.constants:
            return f"constant {self.types[name]}"
        place = self.locations[name]
        return f"{self.types[name]} as {place.layout.value} {place.dtype.value}"

    def input_type(self, index: int) -> TensorType:
        name = self.node.inputs[index]
        assert name is not None
        return self.types[name]

    def array(self, index: int) -> np.ndarray | None:
        """The value of an input that is constant; None where it is absent or computed."""
        if index >= len(self.node.inputs):
            return None
        name = self.node.inputs[index]
        return None if name is None else self.constants.get(name)

    def kernel(self, title: str, sums: bool = False) -> Kernel:
        """A new entry point; kernels of a node run in the order in which they are made.

        One that `sums` up what it reads only once computes in floats in any precision: long sums
        of halves overflow or come to a stand, and memory is what such a kernel waits for.
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
        """Whether the end of the tail is to round to the very bytes that are kept of the result."""
        place, last = self.locations[self.node.outputs[0]], self.tail[-1:]
        sliced = place.layout is Layout.SLICED and place.dtype is DType.U8 and place.scale == 1.0
        if not (self.device.packs_bytes and self.options.counts_bytes and sliced and last):
            return False
        rounding = cast(Any, last[0].attributes)
        return getattr(rounding, "counts", False) and bool(rounding.low == -place.zero_point)

    def write(
        self, kernel: Kernel, index: int = 0, title: str = "dst", counted: bool = False
    ) -> View:
        """The view of a result; what is stored through it goes through the tail first.

        Where bytes are `counted`, `store_four` rounds instead of the tail's last step.
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
        place = self.locations[name]
        pointer = kernel.pointer(title, place.dtype, place, writable)
        view = View(kernel, pointer, self.types[name], place)
        if isinstance(view.steps, PixelEncoding) and self.device.is_cpu:
            view.steps.table = self.packed(kernel, "table", byte_table(place.channels))
        return view

    def packed(self, kernel: Kernel, title: str, array: np.ndarray, image: bool = False) -> Pointer:
        """A pointer to a constant as it was packed for this kernel."""
        return kernel.pointer(title, DType.of(array), Packed(np.ascontiguousarray(array), image))

    def weights(
        self, kernel: Kernel, title: str, array: np.ndarray, image: bool = False
    ) -> Pointer:
        """The same for weights, which are kept in the precision of storage."""
        storage = self.options.storage_of(array.size, SMALL_WEIGHTS)
        if storage is DType.F16 and np.abs(array).max(initial=0.0) > LARGEST_HALF:
            storage = DType.F32
        elif self.options.spares and np.array_equal(array, array.astype(np.float16)):
            storage = DType.F16  # nothing is lost: many files hold halves
        return self.packed(kernel, title, array.astype(storage.numpy), image)

    def scratch(self, title: str, dtype: DType, elements: int) -> Scratch:
        """Memory between the kernels of this node; `Kernel.pointer` leads there."""
        root = f"{self.node.outputs[0]}/{title}"
        while root in self.types:
            root += "_"
        return Scratch(root, elements * dtype.size)

    def _tail(self, target: View, views: Mapping[str, View], counted: bool) -> Finish:
        """The tail as a function of the running result and where it goes."""
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
