"""What a file that no format knows looks like, and what to do with it."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.formats.source import Content
from fourfold.formats.zip_members import zip_members

EXPORT = (
    "export it where its code is: torch.export.save(torch.export.export(model, (example,)), "
    "'model.pt2'), or pass the module itself to fourfold.from_torch"
)


class Look(NamedTuple):
    """What a file seems to be, and the remedy."""

    looks: str
    fix: str


TORCH_PICKLE = Look("a pickle of PyTorch, which holds weights or code but no graph", EXPORT)
TORCH_SCRIPT = Look("a TorchScript archive, which PyTorch itself no longer exports from", EXPORT)
ZIP = Look("a zip archive", "unpack it and pass the model file inside")
_STARTS = {
    b"PK\x03\x04": ZIP,
    b"\x80": Look("a pickle, as of PyTorch; it may hold weights or code, but no graph", EXPORT),
    b"\x1f\x8b": Look("a gzip archive", "unpack it first"),
    b"version https://git-lfs": Look(
        "a Git LFS pointer", "fetch the real file with 'git lfs pull'"
    ),
    b"<": Look("an HTML or XML page", "the download went wrong; fetch the file itself"),
    b"{": Look("a JSON file", "pass the model file itself"),
    b"\x08": Look(
        "a protobuf file, but no ONNX model",
        "pass a SavedModel as its folder; convert others to .onnx or .tflite first",
    ),
    b"\x0a": Look(
        "a protobuf file, but no graph of TensorFlow",
        "pass a Paddle or Caffe model by its path, under its own name; convert others to .tflite",
    ),
}


def look_at(content: Content) -> Look | None:
    """What content seems to be; None for what seems to be nothing."""
    start = content[:64]
    if not start:
        return Look("empty", "download or export the file again")
    members = {name.rpartition("/")[2]: name for name in zip_members(content)}
    if "data.pkl" in members:
        script = "constants.pkl" in members
        return TORCH_SCRIPT if script else TORCH_PICKLE
    for magic, found in _STARTS.items():
        if start.lstrip().startswith(magic) or start.startswith(magic):
            return found
    return None
