"""Net: the layers of a network that are active at inference, with their parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.formats.caffe.record import Record
from fourfold.formats.caffe.schema import V1_TYPES
from fourfold.types import Shape

# V0 layers: current names of their types, and current places of their settings.
_V0_TYPES = {
    "bnll": "BNLL",
    "concat": "Concat",
    "conv": "Convolution",
    "data": "Data",
    "dropout": "Dropout",
    "flatten": "Flatten",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "hdf5_data": "HDF5Data",
    "images": "ImageData",
    "pool": "Pooling",
    "relu": "ReLU",
    "reshape": "Reshape",
    "sigmoid": "Sigmoid",
    "softmax": "Softmax",
    "split": "Split",
    "softmax_loss": "SoftmaxWithLoss",
    "tanh": "TanH",
    "accuracy": "Accuracy",
    "window_data": "WindowData",
    "power": "Power",
}
_WINDOW = {
    "num_output": "num_output",
    "biasterm": "bias_term",
    "pad": "pad",
    "kernelsize": "kernel_size",
    "group": "group",
    "stride": "stride",
}
_V0_SETTINGS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "conv": ("convolution_param", _WINDOW),
    "pool": (
        "pooling_param",
        {"pool": "pool", "pad": "pad", "kernelsize": "kernel_size", "stride": "stride"},
    ),
    "innerproduct": (
        "inner_product_param",
        {"num_output": "num_output", "biasterm": "bias_term"},
    ),
    "lrn": (
        "lrn_param",
        {"local_size": "local_size", "alpha": "alpha", "beta": "beta", "k": "k"},
    ),
    "concat": ("concat_param", {"concat_dim": "concat_dim"}),
}
_NEW_SIZES = ("new_num", "new_channels", "new_height", "new_width")


def upgraded_layers(net: Record) -> tuple[Record, ...]:
    """Return all layers of a net in the current form.

    Caffe wrote V0 layers before 2014 and V1 layers before 2015.
    """
    return (
        *_without_padding([_upgrade(layer) for layer in net.records("layers")]),
        *net.records("layer"),
    )


def _upgrade(layer: Record) -> Record:
    if layer.has("layer"):
        return _upgrade_v0(layer)
    type_ = layer.text("type")
    return layer.where(type=[V1_TYPES.get(type_, type_)])


def _upgrade_v0(outer: Record) -> Record:
    layer = outer.record("layer")
    type_ = layer.text("type")
    values: dict[str, Sequence[object]] = {
        "name": [layer.text("name")],
        "type": [_V0_TYPES.get(type_, type_)],
        "bottom": outer.texts("bottom"),
        "top": outer.texts("top"),
        "blobs": layer.records("blobs"),
    }
    if type_ in _V0_SETTINGS:
        name, names = _V0_SETTINGS[type_]
        settings = {new: layer.values[old] for old, new in names.items() if layer.has(old)}
        values[name] = [Record(settings)]
    if type_ == "reshape":
        sizes = Record({"dim": [layer.integer(name) for name in _NEW_SIZES]})
        values["reshape_param"] = [Record({"shape": [sizes]})]
    if type_ == "padding":
        values["convolution_param"] = [Record({"pad": [layer.integer("pad")]})]
    return Record(values)


def _without_padding(layers: Sequence[Record]) -> list[Record]:
    """Merge V0 padding layers into the convolution or pool that reads them."""
    padded = {
        top: layer
        for layer in layers
        if layer.text("type") == "padding"
        for top in layer.texts("top")
    }
    kept = (layer for layer in layers if layer.text("type") != "padding")
    return [_take_padding(layer, padded) for layer in kept]


def _take_padding(layer: Record, padded: Mapping[str, Record]) -> Record:
    source = next((padded[name] for name in layer.texts("bottom") if name in padded), None)
    if source is None:
        return layer
    name = "pooling_param" if layer.text("type") == "Pooling" else "convolution_param"
    settings = layer.record(name).where(pad=source.record("convolution_param").integers("pad"))
    return layer.where(**{name: [settings]}, bottom=source.texts("bottom"))


PHASE = "TEST"  # inference, as opposed to TRAIN
_LEGACY = ("num", "channels", "height", "width")
_RAW: Mapping[str, np.dtype] = {
    "DOUBLE": np.dtype("<f8"),
    "FLOAT": np.dtype("<f4"),
    "FLOAT16": np.dtype("<f2"),
}


@dataclass(frozen=True)
class Layer:
    """One layer: the blobs it reads (bottoms) and writes (tops), its settings and parameters."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    settings: Record
    blobs: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class Net:
    """The inputs by name, with their sizes, and the layers in order."""

    name: str
    inputs: tuple[tuple[str, Shape], ...]
    layers: tuple[Layer, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the blobs that no later layer reads; the last write of a blob counts."""
        unread: dict[str, None] = dict.fromkeys(name for name, _ in self.inputs)
        for layer in self.layers:
            for name in layer.bottoms:
                unread.pop(name, None)
            if layer.type != "Silence":
                unread.update(dict.fromkeys(layer.tops))
        return tuple(unread)


def read_net(definition: Record, weights: Record | None) -> Net:
    """Build a net from its definition; parameters are matched by layer name."""
    stored = _parameters(definition if weights is None else weights)
    records = [layer for layer in upgraded_layers(definition) if _is_active(layer, definition)]
    inputs = [*_old_inputs(definition)]
    layers = []
    for record in records:
        if record.text("type") == "Input":
            inputs += _input_layer(record)
        else:
            layers.append(_layer(record, stored))
    return Net(definition.text("name"), tuple(inputs), tuple(layers))


def _layer(record: Record, stored: Mapping[str, tuple[np.ndarray, ...]]) -> Layer:
    return Layer(
        name=record.text("name"),
        type=record.text("type"),
        bottoms=record.texts("bottom"),
        tops=record.texts("top"),
        settings=record,
        blobs=stored.get(record.text("name"), ()),
    )


def _parameters(net: Record) -> Mapping[str, tuple[np.ndarray, ...]]:
    return {
        layer.text("name"): tuple(_array(blob) for blob in layer.records("blobs"))
        for layer in upgraded_layers(net)
        if layer.has("blobs")
    }


def _array(blob: Record) -> np.ndarray:
    """Return the values of a blob in its shape; old files always store four sizes."""
    if blob.has("shape"):
        shape = blob.record("shape").integers("dim")
    else:
        shape = tuple(blob.integer(name) for name in _LEGACY)
    numbers = _numbers(blob)
    if min(shape, default=1) < 0 or math.prod(shape) != numbers.size:
        raise ValueError(f"a blob of {list(shape)} has {numbers.size} numbers")
    return numbers.reshape(shape)


def _numbers(blob: Record) -> np.ndarray:
    if blob.has("raw_data"):
        dtype, block = _RAW.get(blob.text("raw_data_type")), blob.block("raw_data")
        if dtype is None or len(block) % dtype.itemsize:
            raise ValueError(f"a blob holds {len(block)} bytes that are not floats")
        return np.frombuffer(block, dtype).astype(np.float32)
    name = "double_data" if blob.has("double_data") else "data"
    return np.asarray(blob.array(name), np.float32)


def _is_active(layer: Record, net: Record) -> bool:
    """Return True if the include and exclude rules keep a layer at inference."""
    included, excluded = layer.records("include"), layer.records("exclude")
    state = net.record("state")
    if included:
        return any(_meets(rule, state) for rule in included)
    return not any(_meets(rule, state) for rule in excluded)


def _meets(rule: Record, state: Record) -> bool:
    level, stages = state.integer("level"), set(state.texts("stage"))
    return (
        rule.text("phase", PHASE) == PHASE
        and rule.integer("min_level", level) <= level <= rule.integer("max_level", level)
        and stages.issuperset(rule.texts("stage"))
        and stages.isdisjoint(rule.texts("not_stage"))
    )


def _old_inputs(net: Record) -> Iterator[tuple[str, Shape]]:
    """Read inputs stored as fields of the net: names, with a shape or four sizes each."""
    names, sizes = net.texts("input"), net.integers("input_dim")
    shapes = [shape.integers("dim") for shape in net.records("input_shape")]
    if not shapes:
        shapes = [sizes[first : first + 4] for first in range(0, len(sizes), 4)]
    return _pair(names, shapes)


def _input_layer(layer: Record) -> Iterator[tuple[str, Shape]]:
    names = layer.texts("top")
    shapes = [shape.integers("dim") for shape in layer.record("input_param").records("shape")]
    return _pair(names, shapes * len(names) if len(shapes) == 1 else shapes)


def _pair(names: Sequence[str], shapes: Sequence[Shape]) -> Iterator[tuple[str, Shape]]:
    if len(names) != len(shapes):
        raise ValueError(f"{len(names)} inputs have {len(shapes)} shapes")
    return iter(zip(names, shapes, strict=True))
