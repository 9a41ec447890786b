"""Converts the layers of a net to nodes; a blob that is overwritten becomes a new value."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.errors import ModelError
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.caffe.convert import rules
from fourfold.formats.caffe.net import Layer, Net
from fourfold.formats.caffe.operation import Operation
from fourfold.formats.conversion import EXPORT_AGAIN
from fourfold.formats.inputs import DeclaredInput
from fourfold.formats.options import DEFAULTS, ReadOptions
from fourfold.formats.overwriting import Names, OverwritingConversion
from fourfold.formats.refusal import Unconvertible
from fourfold.types import DType

# suffixes of layer types used only in training
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
