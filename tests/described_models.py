"""Models described by inputs and outputs only, for tests of output interpretation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fourfold.graph.metadata import Labels, ModelMetadata, TensorMetadata
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.types import Quantization
from fourfold.vision.meaning import DescribedModel

PICTURE = (1, 64, 64, 3)


def tensor(
    name: str,
    shape: tuple[int, ...],
    dtype: str = "f4",
    steps: Quantization | None = None,
    said: TensorMetadata | None = None,
) -> TensorInfo:
    return TensorInfo(name, shape, np.dtype(dtype), steps, read_metadata=lambda: said)


def described(
    outputs: Mapping[str, tuple[int, ...]] | list[TensorInfo],
    picture: tuple[int, ...] = PICTURE,
    metadata: ModelMetadata | None = None,
    dtype: str = "f4",
) -> DescribedModel:
    """Return a model that takes an image and returns outputs of these shapes."""
    if isinstance(outputs, Mapping):
        outputs = [tensor(name, shape) for name, shape in outputs.items()]
    return DescribedModel(
        (tensor("image", picture, dtype),), tuple(outputs), metadata or ModelMetadata()
    )


def labelled(*texts: str, kind: str = "axis", name: str = "") -> TensorMetadata:
    return TensorMetadata(name, labels=(Labels(texts, kind),))
