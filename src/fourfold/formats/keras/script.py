"""Makes TFLite files of Keras models with TensorFlow's converter. Only a child process imports
this: it imports TensorFlow, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from fourfold.formats.tensorflow.function import convert_function


def convert(path: str) -> bytes:
    """A `.keras` or `.h5` file as a TFLite file."""
    model = tf.keras.models.load_model(path, compile=False)
    if not model.inputs:
        raise ValueError("it has no inputs of known shapes: call it once before it is saved")

    def call(arrays: Sequence[Any]) -> dict[str, Any]:
        return _named(model, model(_packed(model, arrays), training=False))

    return convert_function(call, {one.name: one for one in model.inputs})


def _packed(model: Any, arrays: Sequence[Any]) -> Any:
    """What goes into a model: an array, or a list or a dict of them as it was built with."""
    if len(arrays) == 1 and not hasattr(model, "output_names"):
        return arrays[0]  # Sequential models have no structure
    return tf.nest.pack_sequence_as(model.input, arrays)


def _named(model: Any, results: Any) -> dict[str, Any]:
    """The results by the keys of a dict, or by the names of the layers that they come from."""
    if isinstance(results, Mapping):
        return {str(key): value for key, value in results.items()}
    values = tf.nest.flatten(results)
    names = getattr(model, "output_names", None) or [model.layers[-1].name]
    if len({*names}) != len(values):
        names = [f"output_{place}" for place in range(len(values))]
    return dict(zip(names, values, strict=True))
