"""Write Caffe networks: the definition as text, the weights in binary form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fourfold.formats.protobuf import MessageWriter

Blobs = Mapping[str, Sequence[np.ndarray]]


def input_text(*shape: int, name: str = "x") -> str:
    """Return the text of an input."""
    sizes = " ".join(f"dim: {size}" for size in shape)
    fields = f'name: "{name}" type: "Input" top: "{name}"'
    return f"layer {{ {fields} input_param {{ shape {{ {sizes} }} }} }}\n"


def layer_text(
    type_: str, settings: str = "", bottoms: str = "x", tops: str = "y", name: str = ""
) -> str:
    """Return the text of a layer; blobs are separated by spaces."""
    fields = [f'name: "{name or tops.split()[0]}"', f'type: "{type_}"']
    fields += [f'bottom: "{blob}"' for blob in bottoms.split()]
    fields += [f'top: "{blob}"' for blob in tops.split()]
    return f"layer {{ {' '.join(fields)} {settings} }}\n"


def blob(array: np.ndarray, old: bool = False) -> MessageWriter:
    """Return the blob of a parameter; the oldest files have four sizes."""
    writer = MessageWriter().floats(5, array.reshape(-1))
    if not old:
        return writer.message(7, MessageWriter().integers(1, array.shape))
    for field, size in enumerate([1] * (4 - array.ndim) + list(array.shape), start=1):
        writer.integer(field, size)
    return writer


def weights_file(blobs: Blobs, old: bool = False) -> bytes:
    """Return a .caffemodel with layers of these names, in the current or the previous form."""
    net = MessageWriter().text(1, "net")
    for name, arrays in blobs.items():
        layer = MessageWriter().text(4 if old else 1, name)
        for array in arrays:
            layer.message(6 if old else 7, blob(array, old))
        net.message(2 if old else 100, layer)
    return net.finish()


def write_net(folder: Path, text: str, blobs: Blobs, old: bool = False) -> Path:
    """Write both files, and return the path of the definition."""
    path = folder / "net.prototxt"
    path.write_text(text)
    path.with_suffix(".caffemodel").write_bytes(weights_file(blobs, old))
    return path
