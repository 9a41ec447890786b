"""Ops that sample images between pixels, or work on neighboring channels."""

from __future__ import annotations

from math import isclose

import numpy as np

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter, writes
from fourfold.formats.onnx.write_graph.operator_list import element_of
from fourfold.formats.onnx.write_graph.written_values import channels_first, identity
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import Node
from fourfold.ops.base.axis_orders import Order
from fourfold.ops.base.rules import Resize
from fourfold.ops.grid_sample import GridSample
from fourfold.ops.local_response import LocalResponse
from fourfold.ops.resize import ResizeAxes
from fourfold.ops.roi_align import RoiAlign
from fourfold.processing.resampling import ResizedAxis
from fourfold.types import DType

_FIRST = channels_first(4)
_SAME = 1e-6  # tolerance for scales, which are f32 in files


@writes("resize_bilinear", "resize_nearest")
def resize_image(writer: GraphWriter, node: Node) -> None:
    """Resize of height and width"""
    attributes = node.attributes
    assert isinstance(attributes, Resize)
    nearest = node.op == "resize_nearest"
    aligned, half_pixel = attributes.align_corners, attributes.half_pixel_centers
    coordinates = "align_corners" if aligned else "half_pixel" if half_pixel else "asymmetric"
    type_ = writer.type(node.inputs[0])
    sizes = writer.integers((type_.shape[0], type_.channels, *attributes.size))
    more = {"nearest_mode": "round_prefer_ceil" if aligned or half_pixel else "floor"}
    resized = writer.add(
        "Resize",
        writer.read(node.inputs[0], _FIRST),
        None,
        None,
        sizes,
        mode="nearest" if nearest else "linear",
        coordinate_transformation_mode=coordinates,
        **(more if nearest else {}),
    )
    writer.give(node.outputs[0], resized, _FIRST)


@writes("resize")
def resize(writer: GraphWriter, node: Node) -> None:
    """Resize of any axes"""
    attributes, type_ = node.attributes, writer.type(node.inputs[0])
    assert isinstance(attributes, ResizeAxes)
    sampling, rank = attributes.sampling, type_.rank
    channels = any(one.axis == rank - 1 for one in attributes.axes)
    order = identity(rank) if channels or rank < 3 else channels_first(rank)
    more = {"nearest_mode": sampling.rounding} if sampling.mode == "nearest" else {}
    if sampling.coordinates == "tf_crop_and_resize":
        more["extrapolation_value"] = float(attributes.extrapolation)  # type: ignore[assignment]
    resized = writer.add(
        "Resize",
        writer.read(node.inputs[0], order),
        *_resize_inputs(writer, attributes, type_.shape, order),
        mode=sampling.mode,
        coordinate_transformation_mode=sampling.coordinates,
        cubic_coeff_a=float(sampling.cubic),
        exclude_outside=int(sampling.exclude_outside),
        antialias=int(sampling.antialias),
        **more,
    )
    writer.give(node.outputs[0], resized, order)


def _resize_inputs(
    writer: GraphWriter, attributes: ResizeAxes, shape: Order, order: Order
) -> tuple[str | None, str | None, str | None]:
    """Return region, scales and sizes; sizes are preferred if they are equivalent to scales."""
    by_axis = {one.axis: one for one in attributes.axes}
    starts = [by_axis[axis].start if axis in by_axis else 0.0 for axis in order]
    stops = [by_axis[axis].end if axis in by_axis else 1.0 for axis in order]
    crops = attributes.sampling.coordinates == "tf_crop_and_resize"
    region = writer.constant(np.asarray([*starts, *stops], np.float32)) if crops else None
    for one in attributes.axes:
        if crops and one.size == shape[one.axis] and (one.start, one.end) != (0.0, 1.0):
            raise Unconvertible("ONNX cannot crop an axis that keeps its size")
    ratios = [(one.scale * shape[one.axis], one.size) for one in attributes.axes]
    exact = all(isclose(scaled, size, rel_tol=_SAME) for scaled, size in ratios)
    if exact or any(int(scaled) != size for scaled, size in ratios):
        sizes = [by_axis[axis].size if axis in by_axis else shape[axis] for axis in order]
        return region, None, writer.integers(sizes)
    scales = [_scale(by_axis[axis], shape[axis]) if axis in by_axis else 1.0 for axis in order]
    return region, writer.constant(np.asarray(scales, np.float32)), None


def _scale(one: ResizedAxis, size: int) -> np.float32:
    """Return the scale as f32, rounded such that the new size is not rounded down."""
    scale = np.float32(one.scale)
    return (
        scale
        if int(scale * np.float32(size)) == one.size
        else np.nextafter(scale, np.float32(2**24))
    )


@writes("grid_sample")
def grid_sample(writer: GraphWriter, node: Node) -> None:
    """GridSample"""
    attributes = node.attributes
    assert isinstance(attributes, GridSample)
    first = channels_first(writer.type(node.inputs[0]).rank)
    sampled = writer.add(
        "GridSample",
        writer.read(node.inputs[0], first),
        writer.read(node.inputs[1]),
        mode=attributes.mode,
        padding_mode=attributes.padding,
        align_corners=int(attributes.align_corners),
    )
    writer.give(node.outputs[0], sampled, first)


@writes("roi_align")
def roi_align(writer: GraphWriter, node: Node) -> None:
    """RoiAlign"""
    attributes = node.attributes
    assert isinstance(attributes, RoiAlign)
    images = writer.read(node.inputs[2])
    if writer.type(node.inputs[2]).dtype is not DType.I64:
        images = writer.add("Cast", images, to=element_of(DType.I64))
    aligned = writer.add(
        "RoiAlign",
        writer.read(node.inputs[0], _FIRST),
        writer.read(node.inputs[1]),
        images,
        output_height=attributes.size[0],
        output_width=attributes.size[1],
        sampling_ratio=attributes.samples,
        spatial_scale=float(attributes.scale),
        mode="max" if attributes.largest else "avg",
        coordinate_transformation_mode="half_pixel"
        if attributes.half_pixel
        else "output_half_pixel",
    )
    writer.give(node.outputs[0], aligned, _FIRST)


@writes("local_response")
def local_response(writer: GraphWriter, node: Node) -> None:
    """LRN"""
    attributes, type_ = node.attributes, writer.type(node.inputs[0])
    assert isinstance(attributes, LocalResponse)
    size = 2 * attributes.radius + 1
    numbers = {
        "size": size,
        "alpha": float(attributes.alpha * size),
        "beta": float(attributes.beta),
        "bias": float(attributes.bias),
    }
    if type_.rank == 4:
        response = writer.add("LRN", writer.read(node.inputs[0], _FIRST), **numbers)
        writer.give(node.outputs[0], response, _FIRST)
        return
    shape = writer.integers((type_.pixels, type_.channels, 1, 1))
    response = writer.add(
        "LRN", writer.add("Reshape", writer.read(node.inputs[0]), shape), **numbers
    )
    writer.give(node.outputs[0], writer.add("Reshape", response, writer.integers(type_.shape)))
