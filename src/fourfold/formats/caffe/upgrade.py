"""Upgrades layers written by Caffe before 2015 (V1) and before 2014 (V0) to the current form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.formats.caffe.record import Record
from fourfold.formats.caffe.schema import V1_TYPES

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
    """Return all layers of a net in the current form."""
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
