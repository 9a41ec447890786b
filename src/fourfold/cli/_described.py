"""Descriptions of models before they are opened, to find out which pictures they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.cli._options import ModelArguments
from fourfold.config import Config
from fourfold.graph.metadata import ModelMetadata
from fourfold.processing.pictures import EXTENSIONS
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.store.prepared import is_prepared
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.compiler import load as loading
    from fourfold.processing.pixels.stated import StatedPixels
    from fourfold.vision import describe, preprocessing, shapes
    from fourfold.vision import meaning as meanings
    from fourfold.vision.meaning import DescribedModel
    from fourfold.vision.preprocessing import PictureInput
else:
    loading = lazy_import("fourfold.compiler.load")
    describe = lazy_import("fourfold.vision.describe")
    meanings = lazy_import("fourfold.vision.meaning")
    preprocessing = lazy_import("fourfold.vision.preprocessing")
    shapes = lazy_import("fourfold.vision.shapes")


def describe_arguments(arguments: ModelArguments) -> DescribedModel:
    """Return inputs, outputs and metadata of a model as it is, without --pixels and --postprocess.

    The model is read, not compiled. Only a prepared file is opened.
    """
    plain = arguments.with_options(pixels=None, postprocess=None)
    if is_prepared(arguments.model):
        with plain.open() as session:
            return shapes.as_opened(session)
    options = plain.compile_options(Config.from_environment())
    loaded = loading.load_model(arguments.readable.content, options)
    return describe.describe_model(loaded.model, arguments.title)


def find_picture(arguments: ModelArguments, stated: StatedPixels) -> PictureInput | None:
    """Return the input of a model that takes pictures, before the model is opened."""
    return preprocessing.find_picture_input(describe_arguments(arguments), stated)


def with_own_outputs(
    arguments: ModelArguments, inputs: Sequence[TensorInfo], files: Sequence[str]
) -> DescribedModel:
    """Return a session's inputs with the outputs that the model has without --postprocess.

    These identify the model family, which says how photographs go in.
    """
    if not any(Path(text).suffix.lower() in EXTENSIONS for text in files):
        return meanings.DescribedModel(inputs, (), ModelMetadata())
    model = describe_arguments(arguments)
    return meanings.DescribedModel(inputs, model.outputs, model.metadata, arguments.title)
