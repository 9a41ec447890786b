"""Signatures and metadata of a model, as data and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fourfold.cli._show import echo, number_text, show_table
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.graph import metadata as descriptions
    from fourfold.graph.metadata import ModelMetadata, Signature, TensorMetadata
else:
    descriptions = lazy_import("fourfold.graph.metadata")

FIELDS = ("name", "version", "author", "licence", "description")
# Properties that tools write into every model; alone they are not worth a table.
AUTOMATIC = {"name", "file description", "min_runtime_version", "metadata version", "producer"}


def about_as_data(metadata: ModelMetadata, signatures: Mapping[str, Signature]) -> dict[str, Any]:
    """Return signatures and metadata as plain data."""
    named = {name: asdict(one) for name, one in signatures.items()}
    return {"signatures": named, "metadata": metadata.to_json()}


def show_about(
    metadata: ModelMetadata, signatures: Mapping[str, Signature], model: str = ""
) -> None:
    """Print signatures and metadata, if there are any. `model` names one model of several."""
    of = f" of {model}" if model else ""
    if signatures:
        rows = [
            (name, ", ".join(one.inputs), ", ".join(one.outputs))
            for name, one in signatures.items()
        ]
        show_table(f"signatures{of}", ("signature", "inputs", "outputs"), rows)
    stated = {name: getattr(metadata, name) for name in FIELDS if getattr(metadata, name)}
    stated |= metadata.properties
    if not stated.keys() <= AUTOMATIC:
        show_table(f"metadata{of}", ("", "text"), stated.items())
    tensors = [("input", one) for one in metadata.inputs]
    tensors += [("output", one) for one in metadata.outputs]
    if any(one != descriptions.TensorMetadata() for _, one in tensors):
        details = [(end, one.name, _content(one), "; ".join(_details(one))) for end, one in tensors]
        show_table(f"metadata of tensors{of}", ("", "name", "content", "more"), details)
    for problem in metadata.problems:
        echo(f"metadata: {problem}", err=True)


def _content(tensor: TensorMetadata) -> str:
    return f"{tensor.content} ({tensor.color})" if tensor.color else tensor.content


def _details(tensor: TensorMetadata) -> Iterator[str]:
    if tensor.description:
        yield tensor.description
    if tensor.normalization is not None:
        mean, std = (_numbers(one) for one in (tensor.normalization.mean, tensor.normalization.std))
        yield f"mean {mean}, std {std}"
    if tensor.minimum or tensor.maximum:
        yield f"from {_numbers(tensor.minimum)} to {_numbers(tensor.maximum)}"
    if tensor.threshold is not None:
        yield f"scores from {number_text(tensor.threshold)} on"
    for labels in tensor.labels:
        language = f" in {labels.locale}" if labels.locale else ""
        what = "words" if labels.kind == "vocabulary" else "labels"
        some = " | ".join(labels.texts[:3])
        yield f"{len(labels.texts)} {what}{language}: {some} …"
    for name, text in tensor.properties.items():
        yield f"{name} {text}"


def _numbers(numbers: tuple[float, ...]) -> str:
    return " ".join(map(number_text, numbers)) or "?"
