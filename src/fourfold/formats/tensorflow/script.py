"""Makes TFLite files of TensorFlow's models with its own converter. Only a child process imports
this: it imports TensorFlow, which takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.tools import saved_model_utils

from fourfold.formats.tensorflow import SAVED_MODEL
from fourfold.formats.tensorflow.ends import DEFAULT, Ends, name_ends
from fourfold.formats.tensorflow.function import convert_function

# Nothing reads these in a graph that is made for inference, and yet they are not its results.
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
    """A SavedModel, by its folder, or a frozen graph as a TFLite file."""
    if os.path.basename(path) in SAVED_MODEL:
        path = os.path.dirname(path) or os.curdir
    return _saved_model(path) if os.path.isdir(path) else _frozen_graph(path)


def _saved_model(folder: str) -> bytes:
    """All signatures of a SavedModel, the default one first.

    Some folders are not loaded by TensorFlow 2, such as those with the optimizer of another Keras.
    The loader of TensorFlow 1 looks at nothing but graphs and takes them, one signature at a time.
    """
    meta = _meta_graph(folder)
    tags = list(meta.meta_info_def.tags)
    keys = sorted((key for key in meta.signature_def if key[:2] != "__"), key=_default_first)
    if not keys:
        raise ValueError("it has no signatures: save it with signatures=")
    try:
        found = tf.lite.TFLiteConverter.from_saved_model(folder, keys, tags).convert()
        return name_ends(found, keys)
    except (AttributeError, KeyError, TypeError) as error:
        converter = tf.compat.v1.lite.TFLiteConverter
        try:
            found = converter.from_saved_model(
                folder, tag_set=set(tags), signature_key=keys[0]
            ).convert()
        except (LookupError, RuntimeError, TypeError, ValueError):
            raise error from None  # what the loader of today says tells more
        signature = meta.signature_def[keys[0]]
        return name_ends(
            found, keys[:1], Ends(_tensors(signature.inputs), _tensors(signature.outputs))
        )


def _default_first(key: str) -> tuple[bool, str]:
    return key != DEFAULT, key


def _meta_graph(folder: str) -> Any:
    """The graph for serving, else the first."""
    graphs = list(saved_model_utils.read_saved_model(folder).meta_graphs)
    return next((graph for graph in graphs if "serve" in graph.meta_info_def.tags), graphs[0])


def _tensors(ends: Any) -> dict[str, str]:
    """The names of a signature in order, each with its tensor's, as files of TFLite have it."""
    return {name: ends[name].name.removesuffix(":0") for name in sorted(ends)}


def _frozen_graph(path: str) -> bytes:
    """A graph without signatures: it takes what its placeholders hold, and gives what no node
    reads.
    """
    graph_def, graph = tf.compat.v1.GraphDef(), tf.Graph()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    nodes = graph.get_operations()
    inputs = [node.outputs[0] for node in nodes if node.type == "Placeholder"]
    outputs = list(_unread(nodes))
    if not inputs or not outputs:
        raise ValueError("it has no placeholders" if not inputs else "every value in it is read")

    def call(arrays: Sequence[Any]) -> dict[str, Any]:
        given = dict(zip((one.name for one in inputs), arrays, strict=True))
        names = [one.name for one in outputs]
        found = tf.graph_util.import_graph_def(graph_def, given, names, name="")
        return {_node(one): value for one, value in zip(outputs, found, strict=True)}

    return convert_function(call, {_node(one): one for one in inputs})


def _node(tensor: Any) -> str:
    """The name of a value that is its node's only one, or the first."""
    name: str = tensor.name
    return name.removesuffix(":0")


def _unread(nodes: Sequence[Any]) -> Iterator[Any]:
    """The values that no node reads."""
    for node in nodes:
        if node.type not in _NO_RESULTS:
            yield from (tensor for tensor in node.outputs if not tensor.consumers())
