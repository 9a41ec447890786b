"""Write small TensorFlow and Keras models, with TensorFlow's results for random inputs.

Usage: python tests/tensorflow_models.py FOLDER [SAVED_MODEL ...]. Each model has a file NAME.npz
next to it, with 'inputs/NAME' and 'outputs/NAME'.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras


def main() -> None:
    folder = Path(sys.argv[1])
    keras_models(folder)
    saved_models(folder)
    frozen_graph(folder)
    for path in map(Path, sys.argv[2:]):
        run_saved_model(path, folder / f"{path.name}.npz")


def random(shape: Any) -> np.ndarray:
    sizes = [2 if size is None else int(size) for size in shape]
    return np.random.default_rng(len(sizes)).uniform(-1, 1, sizes).astype(np.float32)


def keep(path: Path, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    arrays = {f"inputs/{name}": array for name, array in inputs.items()}
    arrays |= {f"outputs/{name}": np.asarray(array) for name, array in outputs.items()}
    np.savez(path, **arrays)


def keras_models(folder: Path) -> None:
    """Write Keras models; names and their order are those of the model, not of the converter."""
    image, extra = keras.Input((9, 7, 3), name="image"), keras.Input((4,), name="extra")
    pooled = keras.layers.Conv2D(5, 3, activation="relu")(image)
    pooled = keras.layers.BatchNormalization()(pooled)
    pooled = keras.layers.GlobalAveragePooling2D()(pooled)
    scores = keras.layers.Dense(6, activation="softmax", name="scores")
    scores = scores(keras.layers.Concatenate()([pooled, extra]))
    boxes = keras.layers.Dense(3, name="boxes")(pooled)
    inputs = {"image": random(image.shape), "extra": random(extra.shape)}
    model = keras.Model([image, extra], [scores, boxes])
    result = model([*inputs.values()], training=False)
    outputs = dict(zip(("scores", "boxes"), result, strict=True))
    for name in ("two.keras", "two.h5"):
        model.save(folder / name)
        keep(folder / f"{name}.npz", inputs, outputs)
    named = keras.Model({"image": image, "extra": extra}, {"s": scores, "b": boxes})
    named.save(folder / "named.keras")
    keep(folder / "named.keras.npz", inputs, named(inputs, training=False))
    layers = [keras.layers.Input((6,), name="x"), keras.layers.Dense(3, name="last")]
    row = keras.Sequential(layers)
    row.save(folder / "row.keras")
    x = random((None, 6))
    keep(folder / "row.keras.npz", {"x": x}, {"last": row(x)})


class Signatures(tf.Module):
    """Two signatures of one model; the default is not the first in alphabetical order."""

    def __init__(self) -> None:
        self.weights = tf.Variable(random((3, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def default(self, x: Any) -> Any:
        return {"product": x @ self.weights, "doubled": 2 * x}

    @tf.function(input_signature=[tf.TensorSpec((1, 3), tf.float32, name="y")])
    def other(self, y: Any) -> Any:
        return {"sum": y + tf.reduce_sum(self.weights)}


def saved_models(folder: Path) -> None:
    module = Signatures()
    signatures = {"another": module.other, "serving_default": module.default}
    tf.saved_model.save(module, str(folder / "signatures"), signatures=signatures)
    x = random((None, 3))
    keep(folder / "signatures.npz", {"x": x}, module.default(x))


def frozen_graph(folder: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        image = tf.compat.v1.placeholder(tf.float32, (None, 8, 8, 3), name="net/image")
        features = tf.nn.relu(tf.nn.conv2d(image, random((3, 3, 3, 4)), 1, "SAME"), name="features")
        mean = tf.reduce_mean(features, [1, 2], name="mean")
        halves = tf.split(features, 2, 3, name="halves")
        inputs = random(image.shape)
        with tf.compat.v1.Session() as session:
            output = session.run([mean, *halves], {image: inputs})
    (folder / "frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())
    names = ("mean", "halves", "halves:1")
    keep(folder / "frozen.pb.npz", {"net/image": inputs}, dict(zip(names, output, strict=True)))


def run_saved_model(path: Path, kept: Path) -> None:
    """Run the default signature with the loader of TensorFlow 1, which accepts every folder."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta.signature_def["serving_default"]
        tensors = {name: one.name for name, one in signature.inputs.items()}
        get = session.graph.get_tensor_by_name
        inputs = {name: random(get(tensor).shape) for name, tensor in tensors.items()}
        arguments = {get(tensors[name]): array for name, array in inputs.items()}
        results = {name: get(one.name) for name, one in signature.outputs.items()}
        keep(kept, inputs, session.run(results, arguments))


if __name__ == "__main__":
    main()
