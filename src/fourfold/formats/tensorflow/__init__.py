"""TensorFlow models (SavedModel folders and frozen graphs), converted to TFLite by TensorFlow."""

from __future__ import annotations

import os
from contextlib import suppress

from fourfold.formats.format import Converter, Format, Package, one_file
from fourfold.formats.protobuf import Message
from fourfold.formats.source import Content, ModelSource, files_below

SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")
FOLDERS = ("variables", "assets")  # subfolders of a SavedModel
FROZEN = ".pb"
NODE, NAME, OPERATION = 1, 1, 2  # fields of a graph and of a node
PACKAGES = (
    Package("tensorflow", ("tensorflow", "tensorflow_cpu", "tensorflow_intel", "tf_nightly")),
)


def saved_model(source: ModelSource) -> str | None:
    """Return the folder of a SavedModel, passed as a folder or by its graph file; else None."""
    if source.path is None:
        return None
    folder, name = (source.path, "") if source.is_folder else os.path.split(source.path)
    names = SAVED_MODEL if source.is_folder else tuple({name} & {*SAVED_MODEL})
    exists = (os.path.isfile(os.path.join(folder, name)) for name in names)
    return (folder or os.curdir) if any(exists) else None


def matches(source: ModelSource) -> bool:
    return saved_model(source) is not None or is_graph(source.content)


def is_graph(content: Content) -> bool:
    """Return True if the content starts like a TensorFlow graph: a node with name and operation."""
    with suppress(ValueError):
        node = Message(content).message(NODE) if content[:1] == b"\n" else None
        return node is not None and bool(node.text(NAME) and node.text(OPERATION))
    return False


def files(source: ModelSource) -> tuple[str, ...]:
    folder = saved_model(source)
    if folder is None:
        return one_file(source)
    graphs = (os.path.join(folder, name) for name in SAVED_MODEL)
    present = [path for path in graphs if os.path.isfile(path)]
    folders = (os.path.join(folder, name) for name in FOLDERS)
    return (*present, *(path for one in folders for path in files_below(one, present[0])))


HELPERS = (f"{__name__}.function",)
CONVERTER = Converter(
    "TensorFlow",
    (f"{__name__}.script", *HELPERS),
    target="TFLite",
    extra="tensorflow",
    needs=PACKAGES,
    also=(Package("keras"),),
    suffix=lambda source: FROZEN,
)
FORMAT = Format("TensorFlow", (FROZEN, ".pbtxt"), matches, files=files, converter=CONVERTER)
