"""Converts Keras models to TFLite with TensorFlow's converter.

Imported only in a child process: importing TensorFlow takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from fourfold.formats.tensorflow.function import convert_function


def convert(path: str) -> bytes:
    """Convert a `.keras` or `.h5` file to a TFLite file."""
    model = tf.keras.models.load_model(path, compile=False)
    if not model.inputs:
        raise ValueError("it has no inputs of known shapes: call it once before saving")

    def call(arrays: Sequence[Any]) -> dict[str, Any]:
        return _named(model, model(_packed(model, arrays), training=False))

    return convert_function(call, {one.name: one for one in model.inputs})


def _packed(model: Any, arrays: Sequence[Any]) -> Any:
    """Return the model's input: an array, or a list or dict of them as it was built with."""
    if len(arrays) == 1 and not hasattr(model, "output_names"):
        return arrays[0]  # Sequential models have no structure
    return tf.nest.pack_sequence_as(model.input, arrays)


def _named(model: Any, results: Any) -> dict[str, Any]:
    """Return the results by dict key, or by the names of the layers that compute them."""
    if isinstance(results, Mapping):
        return {str(key): value for key, value in results.items()}
    values = tf.nest.flatten(results)
    names = getattr(model, "output_names", None) or [model.layers[-1].name]
    if len({*names}) != len(values):
        names = [f"output_{index}" for index in range(len(values))]
    return dict(zip(names, values, strict=True))
