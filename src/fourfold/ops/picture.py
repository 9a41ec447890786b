"""y[..., c] = (x[..., byte of c] - zero of c) * scale of c: channels from the bytes of pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import const, convert, vector
from fourfold.codegen.location import Channel
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Types, Variant
from fourfold.ops.base.rules import require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import DType, TensorType

MAX_CHANNELS = 3


@dataclass(frozen=True)
class Picture:
    """The channels of the result, each with its byte in a pixel."""

    channels: tuple[Channel, ...]


@takes("picture", 1)
def infer(attributes: Picture, x: TensorType) -> Types:
    require_kind("picture", frozenset({DType.U8}), x)
    count, bytes_ = len(attributes.channels), [one.byte for one in attributes.channels]
    require(0 < count <= MAX_CHANNELS, "picture", f"it makes 1 to 3 channels, not {count}")
    valid = min(bytes_) >= 0 and max(bytes_) < min(x.channels, 4)
    require(valid, "picture", f"pixels of {x} have no bytes {bytes_}")
    return (x.with_dtype(DType.F32).with_shape(*x.shape[:-1], count),)


def reference(attributes: Picture, x: np.ndarray) -> np.ndarray:
    bytes_, zeros, scales = zip(*attributes.channels, strict=True)
    distance = x[..., list(bytes_)].astype(np.float32) - np.array(zeros, np.float32)
    return np.asarray(distance * np.array(scales, np.float32))


def view(node: Node, inputs: Types, outputs: Types) -> Alias:
    """Return an alias without a kernel: readers of the result read the bytes."""
    assert isinstance(node.attributes, Picture)
    return Alias("picture", channels=node.attributes.channels)


def copied(context: NodeContext) -> None:
    attributes = context.attributes
    assert isinstance(attributes, Picture)
    kernel = context.kernel("picture")
    source, target = context.read(kernel, 0), context.write(kernel)
    zeros = [kernel.number("zero", one.zero) for one in attributes.channels]
    scales = [kernel.number("scale", one.scale) for one in attributes.channels]
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        lanes = [const(0.0, kernel.real)] * 4
        for lane, one in enumerate(attributes.channels):
            byte = convert(source.lane(pixel, 0, one.byte), "float")
            lanes[lane] = convert((byte - zeros[lane]) * scales[lane], kernel.real)
        target.store(pixel, slice_, vector(*lanes))


_THREE = (Channel(2, 123.675, 1 / 58.395), Channel(1, 116.28, 1 / 57.12), Channel(0, 103.53, 0.25))


def _case(x: str, *channels: Channel) -> Case:
    return Case((x,), Picture(channels), low=0, high=255)


OP = Op(
    name="picture",
    attributes=Picture,
    infer=infer,
    reference=reference,
    variants=(Variant("copied", copied),),
    view=view,
    cases=(
        _case("u8[1]", Channel(0, 0.0, 1.0)),
        _case("u8[5,1]", Channel(0, 127.5, 1 / 127.5)),
        _case("u8[2,5,7,3]", *_THREE),
        _case("u8[1,11,13,4]", *_THREE),
        _case("u8[3,7,5,4]", Channel(1, 0.0, 1 / 255)),
    ),
)
