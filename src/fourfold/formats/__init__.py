"""Model files of every format become a Model here; the first bytes say which format it is."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fourfold.errors import InputError, ModelError
from fourfold.formats import tflite
from fourfold.formats.model import Model, Origin, Signature
from fourfold.types import Shape

__all__ = ["Model", "Origin", "Signature", "read_model"]

Content = bytes | mmap.mmap


@dataclass(frozen=True)
class _Format:
    name: str
    matches: Callable[[Content], bool]
    read: Callable[[Content, str, Mapping[str, Shape], str | None, bool, bool, bool], Model]


_FORMATS = (_Format("TFLite", tflite.matches, tflite.read),)

_LOOKS = (
    (b"PK\x03\x04", "a zip archive", "unpack it and pass the model file inside"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x89HDF", "an HDF5 file, such as Keras writes", "convert it to .tflite first"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the real file with 'git lfs pull'"),
    (b"<", "an HTML or XML page", "the download went wrong; fetch the file itself"),
    (b"{", "a JSON file", "pass the model file itself"),
    (b"\x08", "an ONNX or other protobuf file", "convert it to .tflite first"),
    (b"\x0a", "a protobuf file, such as a TensorFlow graph", "convert it to .tflite first"),
)


def read_model(
    model: str | os.PathLike[str] | bytes,
    shapes: Mapping[str, Shape] | None = None,
    signature: str | None = None,
    foreign: bool = False,
    quantized: bool = True,
    follow: bool = True,
) -> Model:
    """The model in a file or in bytes. `shapes` sets input shapes; `signature` chooses a graph.

    What cannot be converted is refused, or with `foreign` becomes a node that stands for it; so is
    what works on quantised values unless `quantized` allows it. With `follow`, a batch goes through
    reshapes that have another one written into them; without it they are taken literally.
    """
    title = "the model" if isinstance(model, bytes) else f"'{os.fspath(model)}'"
    content = model if isinstance(model, bytes) else _open(model)
    for form in _FORMATS:
        if form.matches(content):
            return form.read(content, title, shapes or {}, signature, foreign, quantized, follow)
    raise _unknown(content, title)


def _open(path: str | os.PathLike[str]) -> Content:
    """The file mapped into memory, so that constants need no copy."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        fix = "check the path and that the file may be read"
        raise InputError(f"cannot open '{os.fspath(path)}'", why, fix) from error


def _unknown(content: Content, title: str) -> ModelError:
    names = " or ".join(form.name for form in _FORMATS)
    start = content[:64]
    looks, fix = "something else", f"pass a {names} file"
    if not start:
        looks, fix = "empty", "download or export the file again"
    for magic, found, remedy in _LOOKS:
        if start.lstrip().startswith(magic) or start.startswith(magic):
            looks, fix = found, remedy
            break
    return ModelError(f"{title} is not a model that can be read", f"it is {looks}", fix)
