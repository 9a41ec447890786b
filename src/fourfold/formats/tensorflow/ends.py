"""Gives the inputs and outputs of a TFLite file their names and their order. Only a child process
imports this: it imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

DEFAULT = "serving_default"  # the signature that callers get who name none


@dataclass(frozen=True)
class Ends:
    """The inputs and outputs of a signature in order: each name that callers know, with the name
    that the converter left, which is that of the signature or of the tensor.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def name_ends(content: bytes, keys: Sequence[str], ends: Ends | None = None) -> bytes:
    """The file with the first of these signatures as its main graph, and with the names of
    signatures as those of tensors; `ends` has them where the file's own signature does not.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    _check_variables(model)
    found = {_text(one.signatureKey): one for one in model.signatureDefs or []}
    if ends is not None:
        signature = found.get(keys[0]) or _new_signature(keys[0])
        graph = model.subgraphs[signature.subgraphIndex]
        signature.inputs = _named(ends.inputs, signature.inputs, graph, graph.inputs)
        signature.outputs = _named(ends.outputs, signature.outputs, graph, graph.outputs)
        found[keys[0]] = signature
    for signature in found.values():
        _name_tensors(model.subgraphs[signature.subgraphIndex], signature)
    model.signatureDefs = list(found.values())
    if keys[0] in found:
        _put_first(model, found[keys[0]].subgraphIndex)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _check_variables(model: Any) -> None:
    """A variable that nobody gives a value holds whatever was in memory."""
    codes = {code.builtinCode for code in model.operatorCodes}
    known = schema.BuiltinOperator
    if known.READ_VARIABLE in codes and known.ASSIGN_VARIABLE not in codes:
        raise ValueError("the converter left variables without values")


def _new_signature(key: str) -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = key.encode(), 0
    signature.inputs, signature.outputs = [], []
    return signature


def _named(
    names: Mapping[str, str], known: Sequence[Any], graph: Any, tensors: Sequence[int]
) -> list[Any]:
    """The ends of a signature under new names, found by those that the file has for them."""
    places = {_text(graph.tensors[tensor].name).removesuffix(":0"): tensor for tensor in tensors}
    places |= {_text(one.name): one.tensorIndex for one in known}
    found = []
    for name, left in names.items():
        if left not in places:
            raise ValueError(f"the converter lost '{name}'")
        one = schema.TensorMapT()
        one.name, one.tensorIndex = name.encode(), places[left]
        found.append(one)
    return found


def _name_tensors(graph: Any, signature: Any) -> None:
    """Tensors called as the signature calls them, in its order; who had such a name gives way."""
    ends = {one.tensorIndex: one.name for one in (*signature.outputs, *signature.inputs)}
    taken = set(ends.values())
    for tensor in graph.tensors:
        if tensor.name in taken:
            tensor.name += b"/inside"
    for place, name in ends.items():
        graph.tensors[place].name = name
    graph.inputs = [one.tensorIndex for one in signature.inputs]
    graph.outputs = [one.tensorIndex for one in signature.outputs]


def _put_first(model: Any, place: int) -> None:
    """A graph as the main one: it changes places with the first, for all who name them."""
    places = {0: place, place: 0}
    graphs = model.subgraphs
    graphs[0], graphs[place] = graphs[place], graphs[0]
    for signature in model.signatureDefs:
        signature.subgraphIndex = places.get(signature.subgraphIndex, signature.subgraphIndex)
    for operator in (one for graph in graphs for one in graph.operators or []):
        for options in (operator.builtinOptions, operator.builtinOptions2):
            for name, value in vars(options).items() if options is not None else ():
                if name.lower().endswith(("subgraphindex", "subgraph")):
                    setattr(options, name, places.get(value, value))


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
