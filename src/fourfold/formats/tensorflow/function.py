"""Makes a TFLite file of a function on tensors. Only a child process imports this: it imports
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from fourfold.formats.tensorflow.ends import DEFAULT, Ends, name_ends

Call = Callable[[Sequence[Any]], Mapping[str, Any]]


def convert_function(call: Call, inputs: Mapping[str, Any]) -> bytes:
    """A function of tensors in the order of `inputs`, each a name with what has its shape and type,
    as a file; it gives its results by name.

    For the converter they go by number, because it changes most other names.
    """
    outputs: list[str] = []

    def numbered(*arrays: Any) -> Mapping[str, Any]:
        results = call(arrays)
        outputs[:] = results
        return {f"output_{place}": value for place, value in enumerate(results.values())}

    specs = [
        tf.TensorSpec(one.shape, one.dtype, f"input_{place}")
        for place, one in enumerate(inputs.values())
    ]
    traced = tf.function(numbered, input_signature=specs).get_concrete_function()
    owner = tf.Module()
    owner.variables_of_graph = list(traced.graph.variables)  # only what it holds becomes constants
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced], owner).convert()
    ends = Ends(
        {name: f"input_{place}" for place, name in enumerate(inputs)},
        {name: f"output_{place}" for place, name in enumerate(outputs)},
    )
    return name_ends(content, [DEFAULT], ends)
