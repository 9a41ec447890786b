"""Reads a Caffe network into a Model."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.errors import ModelError
from fourfold.formats.caffe.conversion import convert_net
from fourfold.formats.caffe.convert import rules
from fourfold.formats.caffe.files import NetFiles, find_files
from fourfold.formats.caffe.net import Net, read_net
from fourfold.formats.caffe.record import read_binary, read_text
from fourfold.formats.caffe.schema import NET
from fourfold.formats.caffe.text import parse_text
from fourfold.formats.conversion import sound, unsupported
from fourfold.formats.model import Model
from fourfold.formats.names import unique
from fourfold.formats.options import ReadOptions
from fourfold.formats.printable import printable
from fourfold.formats.protobuf import Message
from fourfold.formats.rule_table import summary
from fourfold.formats.source import ModelSource, open_source
from fourfold.metadata import ModelMetadata

# Layer types that always have parameters.
WEIGHTED = {"Convolution", "Deconvolution", "InnerProduct", "BatchNorm", "PReLU", "Normalize"}


def read(source: ModelSource, options: ReadOptions) -> Model:
    options.refuse_signature("Caffe")
    files = find_files(source)
    with sound(source.title, "Caffe network"):
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
        weights = read_binary(Message(open_source(files.weights).content), NET)
    if files.definition is not None:
        text = parse_text(bytes(open_source(files.definition).content))
        return read_net(read_text(text, NET), weights)
    assert weights is not None, "at least one of the two files exists"
    return read_net(weights, None)


def _check_weights(net: Net, files: NetFiles, title: str) -> None:
    weighted = [layer for layer in net.layers if layer.type in WEIGHTED]
    if files.weights is None and weighted and not any(layer.blobs for layer in weighted):
        what = f"{title} has no weights"
        why = f"{len(weighted)} of its layers need weights, and there is no .caffemodel next to it"
        raise ModelError(what, why, "put the .caffemodel next to it, under the same name")
