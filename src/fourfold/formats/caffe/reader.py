"""Reads a Caffe network into a Model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.errors import ModelError
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.caffe.convert import rules
from fourfold.formats.caffe.files import NetFiles, find_files
from fourfold.formats.caffe.net import Layer, Net, read_net
from fourfold.formats.caffe.operation import Operation
from fourfold.formats.caffe.record import parse_text, read_binary, read_text
from fourfold.formats.caffe.schema import NET
from fourfold.formats.conversion import (
    EXPORT_AGAIN,
    Names,
    OverwritingConversion,
    report_damage,
    unsupported,
)
from fourfold.formats.inputs import DEFAULTS, DeclaredInput, ReadOptions
from fourfold.formats.model import Model
from fourfold.formats.names import printable, unique
from fourfold.formats.protobuf import Message
from fourfold.formats.rule_table import Unconvertible, summary
from fourfold.formats.source import ModelSource, map_file
from fourfold.graph.metadata import ModelMetadata
from fourfold.types import DType

# Suffixes of layer types used only in training.
_TRAINING = ("Data", "Loss", "Accuracy", "WithLoss")


@dataclass
class NetConversion(OverwritingConversion):
    """Converts layers; an in-place layer overwrites the blob that it reads."""

    def add_layer(self, layer: Layer) -> None:
        """Convert a layer to nodes, or record a refusal."""
        self.add_operator(
            layer.type, layer.bottoms, layer.tops, lambda *values: self._add_nodes(layer, *values)
        )

    def _add_nodes(self, layer: Layer, inputs: Names, outputs: Names) -> None:
        if layer.type not in rules():
            raise Unconvertible(_unknown(layer.type))
        name, own = outputs[0] if outputs else layer.name, self.own_shapes(inputs)
        rules()[layer.type](Operation(self.builder, name, outputs, inputs, layer, own))


def _unknown(type_: str) -> str:
    if type_.endswith(_TRAINING):
        return "it is only used in training: pass the network for inference ('deploy')"
    return "layers of this type are not supported"


def convert_net(net: Net, size: int, options: ReadOptions) -> NetConversion:
    """Convert all layers of a net whose files have `size` bytes."""
    conversion = NetConversion(GraphBuilder(Budget.of(size)))
    for name, _ in net.inputs:
        conversion.builder.fresh(name)
    conversion.take_inputs(_declared(net), options)
    if conversion.builder.batch_factor != 1:
        conversion.own = convert_net(net, size, DEFAULTS).builder.types
    for layer in net.layers:
        conversion.add_layer(layer)
    return conversion


def _declared(net: Net) -> list[DeclaredInput]:
    if not net.inputs:
        what, why = "the network has no inputs", "it has neither 'input' fields nor Input layers"
        raise ModelError(what, why, "pass the network for inference ('deploy')")
    try:
        return [DeclaredInput.of(name, DType.F32, shape) for name, shape in net.inputs]
    except ValueError as error:
        raise ModelError("an input has an invalid shape", str(error), EXPORT_AGAIN) from error


# Layer types that always have parameters.
WEIGHTED = {"Convolution", "Deconvolution", "InnerProduct", "BatchNorm", "PReLU", "Normalize"}


def read(source: ModelSource, options: ReadOptions) -> Model:
    options.refuse_signature("Caffe")
    files = find_files(source)
    with report_damage(source.title, "Caffe network"):
        net = _read_files(files)
    _check_weights(net, files, source.title)
    conversion = convert_net(net, files.size, options)
    graph = conversion.finish([conversion.values.get(name, name) for name in net.outputs])
    if graph is None:
        raise unsupported(source.title, conversion.refusals)
    return Model(
        graph,
        graph.arguments,
        unique(net.outputs),
        description=net.name,
        read_metadata=lambda: ModelMetadata(name=printable(net.name)),
    )


def operators() -> Mapping[str, str]:
    return {name: summary(rule) for name, rule in rules().items()}


def _read_files(files: NetFiles) -> Net:
    weights = None
    if files.weights is not None:
        weights = read_binary(Message(map_file(files.weights)), NET)
    if files.definition is not None:
        text = parse_text(bytes(map_file(files.definition)))
        return read_net(read_text(text, NET), weights)
    assert weights is not None, "at least one of the two files exists"
    return read_net(weights, None)


def _check_weights(net: Net, files: NetFiles, title: str) -> None:
    weighted = [layer for layer in net.layers if layer.type in WEIGHTED]
    if files.weights is None and weighted and not any(layer.blobs for layer in weighted):
        what = f"{title} has no weights"
        why = f"{len(weighted)} of its layers need weights, and there is no .caffemodel next to it"
        raise ModelError(what, why, "put the .caffemodel next to it, under the same name")
