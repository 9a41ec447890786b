"""y = a chain of nodes, each reading the previous one, which may run as one kernel.

How many of the first nodes run as separate kernels is a choice for tuning.
"""

from __future__ import annotations

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.location import Stored
from fourfold.graph import NONE, Node, Step
from fourfold.ops.base import Case, Op, Types, Variant, registry
from fourfold.ops.base.rules import Reduce, require
from fourfold.ops.kernels.chain import Chain, can_chain, forms
from fourfold.ops.kernels.joined import Joined, Parts, part_types
from fourfold.types import DType, TensorType


def infer(attributes: Joined, *types: TensorType | None) -> Types:
    require(len(attributes.parts) > 0, "joined", "it has no parts")
    require(None not in types, "joined", "an input is missing")
    return (part_types(attributes, types)[attributes.parts[-1].outputs[0]],)


def reference(attributes: Joined, *arrays: np.ndarray) -> np.ndarray:
    values: dict[str | None, np.ndarray | None] = {str(n): array for n, array in enumerate(arrays)}
    values[None] = None
    for part in attributes.parts:
        operands = [values[name] for name in part.inputs]
        result = np.asarray(registry()[part.op].reference(part.attributes, *operands))
        for step in part.tail:
            others = [result if name is None else values[name] for name in step.inputs]
            result = np.asarray(registry()[step.op].reference(step.attributes, *others))
        values[part.outputs[0]] = result
    return result


def choices(context: NodeContext) -> list[str]:
    parts = Parts(context)
    counts = forms(parts.nodes, parts.all_types, context.device)
    usable = counts if can_chain(context.target) else [len(parts.nodes)]
    return [str(count) for count in usable]


def build(context: NodeContext) -> None:
    parts, listed = Parts(context), choices(context)
    apart = int(context.choice if context.choice in listed else listed[0])
    memories = parts.write_apart(apart)
    if apart < len(parts.nodes):
        Chain(parts, apart, memories)


def _case(x: str, *channels: int, mean: bool = True, bias: bool = True) -> Case:
    """Return a case with an optional mean and fully connected layers with `channels` outputs."""
    rank, inputs = x.count(",") + 1, [f"f32{x}"]
    parts = [Node("mean", ("0",), ("m",), Reduce(tuple(range(1, rank - 1)), True))] if mean else []
    before = int(x.rstrip("]").rpartition(",")[2])
    for number, count in enumerate(channels):
        reads = [parts[-1].outputs[0] if parts else "0", str(len(inputs))]
        inputs.append(f"f32[{count},{before}]")
        if bias:
            reads.append(str(len(inputs)))
            inputs.append(f"f32[{count}]")
        tail = (Step("relu", NONE, (None,)),) if number < len(channels) - 1 else ()
        parts.append(Node("fully_connected", tuple(reads), ("abc"[number],), NONE, tail))
        before = count
    stored = (Stored(DType.F32),) * (len(parts) - 1)
    constants = tuple(range(1, len(inputs)))
    return Case(tuple(inputs), Joined(tuple(parts), stored), constants, low=-1.0, high=1.0)


OP = Op(
    name="joined",
    attributes=Joined,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("chain", build, choices=choices),),
    cases=(
        _case("[1,1,1,1]", 1),
        _case("[2,5,7,13]", 3, 13),
        _case("[1,11,7,16]", 8, 16, bias=False),
        _case("[3,2,1,41]", 37, 5, 7),
        _case("[1,13,11,3]", 29),
        _case("[2,3,5,7,11]", 2, 11),
        _case("[5,31]", 7, 41, mean=False),
        _case("[1,257]", 67, 3, bias=False, mean=False),
    ),
)
