"""Converts a function on tensors to a TFLite file.

Imported only in a child process, since it imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from fourfold.formats.tensorflow.ends import DEFAULT, Ends, name_ends

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
