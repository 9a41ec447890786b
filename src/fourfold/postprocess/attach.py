"""Which option is for which outputs of a model, and the model that gives what comes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from fourfold.errors import InputError, nearest
from fourfold.formats import Model
from fourfold.metadata import VALUE, ModelMetadata, TensorMetadata
from fourfold.postprocess.boxes import decoded_boxes, ssd_boxes
from fourfold.postprocess.classes import classify
from fourfold.postprocess.grown_graph import GrownGraph
from fourfold.postprocess.mediapipe import mediapipe_boxes
from fourfold.postprocess.outputs import DetectorOutputs
from fourfold.postprocess.yolo import yolo_boxes, yolo_heads
from fourfold.processing import (
    ArgMax,
    DecodedBoxes,
    MediaPipeBoxes,
    Softmax,
    SsdBoxes,
    TopK,
    YoloBoxes,
    YoloHeads,
)
from fourfold.processing.option import PostprocessOption, Processing

Ports = dict[str, str]  # values by the names that the caller sees
CLASSES = "classes"


class ProcessedOutput(NamedTuple):
    """A value that the caller gets, the output of the model that it is or comes of, and as what."""

    value: str
    output: str
    part: str = ""


def attach_postprocess(model: Model, given: PostprocessOption) -> Model:
    """The model with nodes behind it; its source graph stays that of the file."""
    named = given if isinstance(given, Mapping) else {"": given}
    for name, option in named.items():
        model = _attach(model, name, option)
    return model


def _attach(model: Model, name: str, option: Processing) -> Model:
    values = dict(zip(model.output_names, model.main.results, strict=True))
    if name and name not in values:
        what, why = f"the model has no output {name!r}", f"its outputs are {[*values]}"
        raise InputError(what, why, nearest(name, values))
    title = f"postprocess {name}" if name else "postprocess"
    grown = GrownGraph(model.main, title)
    if isinstance(option, TopK | ArgMax | Softmax):
        output = name or _only(model, option, values)
        found, taken = classify(grown, option, values[output], output), [output]
    else:
        chosen = {name: values[name]} if name else values
        outputs = DetectorOutputs(grown, chosen, type(option).__name__)
        found, taken = _detect(grown, model, option, outputs), [*outputs.taken]
    return _with_ports(model, grown, values, found, taken)


def _only(model: Model, option: Processing, values: Ports) -> str:
    if len(values) != 1:
        kind = type(option).__name__
        what = f"{kind} was passed without a name, and the model has {len(values)} outputs"
        types = ", ".join(f"{name}: {model.main.types[value]}" for name, value in values.items())
        fix = f"pass a dict by name: postprocess={{{next(iter(values), 'name')!r}: {option!r}}}"
        raise InputError(what, f"they are {types}", fix)
    return next(iter(values))


def _detect(grown: GrownGraph, model: Model, option: Processing, outputs: DetectorOutputs) -> Ports:
    if isinstance(option, YoloBoxes):
        return yolo_boxes(grown, model, option, outputs)
    if isinstance(option, YoloHeads):
        return yolo_heads(grown, model, option, outputs)
    if isinstance(option, SsdBoxes):
        return ssd_boxes(grown, model, option, outputs)
    if isinstance(option, MediaPipeBoxes):
        return mediapipe_boxes(grown, model, option, outputs)
    assert isinstance(option, DecodedBoxes)
    return decoded_boxes(grown, model, option, outputs)


def _with_ports(
    model: Model, grown: GrownGraph, values: Ports, found: Ports, taken: Sequence[str]
) -> Model:
    """What comes of outputs stands where the first of them stood."""
    ports: dict[str, ProcessedOutput] = {}
    first = next(name for name in values if name in taken)
    for name, value in values.items():
        if name not in taken:
            ports[name] = ProcessedOutput(value, name)
        elif name == first:
            ports |= {
                _title(part, name, values.keys() - set(taken)): ProcessedOutput(result, name, part)
                for part, result in found.items()
            }
    graph = grown.finish([port.value for port in ports.values()])
    read = partial(_describe, model, tuple(ports.values()))
    return replace(model, main=graph, output_names=tuple(ports), read_metadata=read)


def _title(part: str, output: str, kept: Collection[str]) -> str:
    """What a result is called: as it is, or where an output that stays has that name, by both."""
    return f"{output}/{part}" if part in kept else part or output


def _describe(model: Model, ports: Sequence[ProcessedOutput]) -> ModelMetadata:
    """What the model says of itself, with labels of classes for the classes that come of them."""
    metadata = model.metadata
    if not metadata.outputs:
        return metadata
    known = dict(zip(model.output_names, metadata.outputs, strict=False))
    outputs = tuple(_tensor(known.get(port.output), port.part) for port in ports)
    return replace(metadata, outputs=outputs)


def _tensor(known: TensorMetadata | None, part: str) -> TensorMetadata:
    if known is None or part not in ("", CLASSES):
        return TensorMetadata()
    if not part:
        return known
    return TensorMetadata(labels=tuple(replace(one, kind=VALUE) for one in known.labels))
