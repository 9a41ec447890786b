"""Converts a function on tensors to a TFLite file.

Imported only in a child process, since it imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

DEFAULT = "serving_default"  # the default signature


@dataclass(frozen=True)
class Ends:
    """The inputs and outputs of a signature in order, by the names that callers use.

    Each has the name that the converter gave it: that of the signature or of the tensor.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def name_ends(content: bytes, keys: Sequence[str], ends: Ends | None = None) -> bytes:
    """Make the first of these signatures the main graph, and rename tensors as in the signatures.

    `ends` has the names if the file's own signature does not.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    _check_variables(model)
    signatures = {_text(one.signatureKey): one for one in model.signatureDefs or []}
    if ends is not None:
        signature = signatures.get(keys[0]) or _new_signature(keys[0])
        graph = model.subgraphs[signature.subgraphIndex]
        signature.inputs = _named(ends.inputs, signature.inputs, graph, graph.inputs)
        signature.outputs = _named(ends.outputs, signature.outputs, graph, graph.outputs)
        signatures[keys[0]] = signature
    for signature in signatures.values():
        _name_tensors(model.subgraphs[signature.subgraphIndex], signature)
    model.signatureDefs = list(signatures.values())
    if keys[0] in signatures:
        _put_first(model, signatures[keys[0]].subgraphIndex)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _check_variables(model: Any) -> None:
    """Raise ValueError for variables that are never assigned; they would hold arbitrary data."""
    codes = {code.builtinCode for code in model.operatorCodes}
    operators = schema.BuiltinOperator
    if operators.READ_VARIABLE in codes and operators.ASSIGN_VARIABLE not in codes:
        raise ValueError("the converter left variables without values")


def _new_signature(key: str) -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = key.encode(), 0
    signature.inputs, signature.outputs = [], []
    return signature


def _named(
    names: Mapping[str, str], entries: Sequence[Any], graph: Any, tensors: Sequence[int]
) -> list[Any]:
    """Return the ends of a signature under new names, matched by their names in the file."""
    tensors_by_name = {
        _text(graph.tensors[tensor].name).removesuffix(":0"): tensor for tensor in tensors
    }
    tensors_by_name |= {_text(one.name): one.tensorIndex for one in entries}
    named = []
    for name, original in names.items():
        if original not in tensors_by_name:
            raise ValueError(f"the converter lost '{name}'")
        one = schema.TensorMapT()
        one.name, one.tensorIndex = name.encode(), tensors_by_name[original]
        named.append(one)
    return named


def _name_tensors(graph: Any, signature: Any) -> None:
    """Name tensors as in the signature, in its order; other tensors of that name are renamed."""
    ends = {one.tensorIndex: one.name for one in (*signature.outputs, *signature.inputs)}
    taken = set(ends.values())
    for tensor in graph.tensors:
        if tensor.name in taken:
            tensor.name += b"/inside"
    for index, name in ends.items():
        graph.tensors[index].name = name
    graph.inputs = [one.tensorIndex for one in signature.inputs]
    graph.outputs = [one.tensorIndex for one in signature.outputs]


def _put_first(model: Any, index: int) -> None:
    """Make a graph the main one by swapping it with the first, in all references."""
    swapped = {0: index, index: 0}
    graphs = model.subgraphs
    graphs[0], graphs[index] = graphs[index], graphs[0]
    for signature in model.signatureDefs:
        signature.subgraphIndex = swapped.get(signature.subgraphIndex, signature.subgraphIndex)
    for operator in (one for graph in graphs for one in graph.operators or []):
        for options in (operator.builtinOptions, operator.builtinOptions2):
            for name, value in vars(options).items() if options is not None else ():
                if name.lower().endswith(("subgraphindex", "subgraph")):
                    setattr(options, name, swapped.get(value, value))


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


Call = Callable[[Sequence[Any]], Mapping[str, Any]]


def convert_function(call: Call, inputs: Mapping[str, Any]) -> bytes:
    """Convert a function of tensors to a file.

    `inputs` has names with objects that have a shape and dtype, in the order of the arguments;
    `call` returns its results by name. The converter sees numbered names, because it changes most
    others.
    """
    outputs: list[str] = []

    def numbered(*arrays: Any) -> Mapping[str, Any]:
        results = call(arrays)
        outputs[:] = results
        return {f"output_{index}": value for index, value in enumerate(results.values())}

    specs = [
        tf.TensorSpec(one.shape, one.dtype, f"input_{index}")
        for index, one in enumerate(inputs.values())
    ]
    traced = tf.function(numbered, input_signature=specs).get_concrete_function()
    owner = tf.Module()
    # Only variables of the owner become constants.
    owner.variables_of_graph = list(traced.graph.variables)
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced], owner).convert()
    ends = Ends(
        {name: f"input_{index}" for index, name in enumerate(inputs)},
        {name: f"output_{index}" for index, name in enumerate(outputs)},
    )
    return name_ends(content, [DEFAULT], ends)
