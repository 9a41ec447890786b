"""Converts TensorFlow models to TFLite with TensorFlow's converter.

Imported only in a child process: importing TensorFlow takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.tools import saved_model_utils

from fourfold.formats.tensorflow import SAVED_MODEL
from fourfold.formats.tensorflow.function import DEFAULT, Ends, convert_function, name_ends

# Operations that are not results, although nothing reads them.
_NO_RESULTS = (
    "Assert",
    "Const",
    "NoOp",
    "Placeholder",
    "PlaceholderWithDefault",
    "Print",
    "SaveV2",
)


def convert(path: str) -> bytes:
    """Convert a SavedModel folder or a frozen graph to a TFLite file."""
    if os.path.basename(path) in SAVED_MODEL:
        path = os.path.dirname(path) or os.curdir
    return _saved_model(path) if os.path.isdir(path) else _frozen_graph(path)


def _saved_model(folder: str) -> bytes:
    """Convert all signatures of a SavedModel, the default one first.

    TensorFlow 2 cannot load some folders, such as those with the optimizer of another Keras
    version. The loader of TensorFlow 1 only reads graphs and accepts them, one signature at a time.
    """
    meta = _meta_graph(folder)
    tags = list(meta.meta_info_def.tags)
    keys = sorted((key for key in meta.signature_def if key[:2] != "__"), key=_default_first)
    if not keys:
        raise ValueError("it has no signatures: save it with signatures=")
    try:
        content = tf.lite.TFLiteConverter.from_saved_model(folder, keys, tags).convert()
        return name_ends(content, keys)
    except (AttributeError, KeyError, TypeError) as error:
        converter = tf.compat.v1.lite.TFLiteConverter
        try:
            content = converter.from_saved_model(
                folder, tag_set=set(tags), signature_key=keys[0]
            ).convert()
        except (LookupError, RuntimeError, TypeError, ValueError):
            raise error from None  # the error of the current loader is more helpful
        signature = meta.signature_def[keys[0]]
        return name_ends(
            content, keys[:1], Ends(_tensors(signature.inputs), _tensors(signature.outputs))
        )


def _default_first(key: str) -> tuple[bool, str]:
    return key != DEFAULT, key


def _meta_graph(folder: str) -> Any:
    """Return the graph for serving, else the first."""
    graphs = list(saved_model_utils.read_saved_model(folder).meta_graphs)
    return next((graph for graph in graphs if "serve" in graph.meta_info_def.tags), graphs[0])


def _tensors(ends: Any) -> dict[str, str]:
    """Return the names of a signature in order, each with its tensor's name as in TFLite files."""
    return {name: ends[name].name.removesuffix(":0") for name in sorted(ends)}


def _frozen_graph(path: str) -> bytes:
    """Convert a graph without signatures: inputs are placeholders, outputs are unread values."""
    graph_def, graph = tf.compat.v1.GraphDef(), tf.Graph()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    nodes = graph.get_operations()
    inputs = [node.outputs[0] for node in nodes if node.type == "Placeholder"]
    outputs = list(_unread(nodes))
    if not inputs or not outputs:
        raise ValueError(
            "it has no placeholders"
            if not inputs
            else "it has no outputs: every value in it is read"
        )

    def call(arrays: Sequence[Any]) -> dict[str, Any]:
        feeds = dict(zip((one.name for one in inputs), arrays, strict=True))
        names = [one.name for one in outputs]
        values = tf.graph_util.import_graph_def(graph_def, feeds, names, name="")
        return {_node(one): value for one, value in zip(outputs, values, strict=True)}

    return convert_function(call, {_node(one): one for one in inputs})


def _node(tensor: Any) -> str:
    """Return the name of a tensor, without the index of a first output."""
    name: str = tensor.name
    return name.removesuffix(":0")


def _unread(nodes: Sequence[Any]) -> Iterator[Any]:
    """Yield the values that no node reads."""
    for node in nodes:
        if node.type not in _NO_RESULTS:
            yield from (tensor for tensor in node.outputs if not tensor.consumers())
