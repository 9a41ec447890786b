"""Guesses what an unrecognized file is, and suggests a fix."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.formats.source import Content
from fourfold.formats.zip_members import zip_members

EXPORT = (
    "export it where its code is: torch.export.save(torch.export.export(model, (example,)), "
    "'model.pt2'), or pass the module itself to fourfold.from_torch"
)


class Look(NamedTuple):
    """A guess of what a file is, and what the user can do."""

    looks: str
    fix: str


TORCH_PICKLE = Look("a PyTorch pickle, which holds weights or code but no graph", EXPORT)
TORCH_SCRIPT = Look("a TorchScript archive, which PyTorch itself no longer exports from", EXPORT)
CUT_ZIP = Look("a zip archive that is damaged or truncated", "download, copy or save it again")
PREPARED = Look(
    "a prepared file, which holds plans but no graph", "pass the model it was prepared from"
)
_STARTS = {
    b"FOURFOLD": PREPARED,
    b"PK\x03\x04": CUT_ZIP,
    b"\x80": Look("a pickle (of PyTorch?), which may hold weights or code, but no graph", EXPORT),
    b"\x1f\x8b": Look("a gzip archive", "unpack it first"),
    b"version https://git-lfs": Look(
        "a Git LFS pointer", "fetch the real file with 'git lfs pull'"
    ),
    b"<": Look("an HTML or XML page", "the download went wrong; fetch the file itself"),
    b"{": Look("a JSON file", "pass the model file itself"),
    b"\x08": Look(
        "a protobuf file, but not an ONNX model",
        "pass a SavedModel as its folder; convert others to .onnx or .tflite first",
    ),
    b"\x0a": Look(
        "a protobuf file, but not a TensorFlow graph",
        "pass a Paddle or Caffe model by its path, under its own name; convert others to .tflite",
    ),
}


def look_at(content: Content, extensions: tuple[str, ...], names: str) -> Look:
    """Guess what a file is from its first bytes.

    `extensions` and `names` are those of all formats, for archives and for the suggested fix.
    """
    start = content[:64]
    if not start:
        return Look("empty", "download or export the file again")
    members = zip_members(content)
    if members:
        return _look_into_zip(members, extensions, names)
    for magic, look in _STARTS.items():
        if start.lstrip().startswith(magic) or start.startswith(magic):
            return look
    return Look("of an unknown format, judging by its first bytes", f"pass a file of {names}")


def _look_into_zip(members: tuple[str, ...], extensions: tuple[str, ...], names: str) -> Look:
    """Guess what an archive is from its members; PyTorch archives should not be unpacked."""
    files = {name.rpartition("/")[2] for name in members}
    if "data.pkl" in files:
        return TORCH_SCRIPT if "constants.pkl" in files else TORCH_PICKLE
    models = [name for name in members if name.lower().endswith(extensions)]
    if not models:
        return Look("a zip archive without a model in it", f"pass a file of {names}")
    return Look("a zip archive with a model in it", f"unpack it, and pass {models[0]}")
