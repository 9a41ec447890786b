"""Match post-processing options with outputs, and append their nodes to the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from fourfold.compiler.postprocess.boxes import decoded_boxes, mediapipe_boxes, ssd_boxes
from fourfold.compiler.postprocess.grown_graph import GrownGraph
from fourfold.compiler.postprocess.outputs import DetectorOutputs
from fourfold.compiler.postprocess.yolo import yolo_boxes, yolo_heads
from fourfold.errors import InputError, nearest
from fourfold.formats import Model
from fourfold.graph.metadata import VALUE, ModelMetadata, TensorMetadata
from fourfold.ops.arg_max import ArgMax as ArgMaxAttributes
from fourfold.ops.gather import Gather
from fourfold.ops.softmax import Softmax as SoftmaxAttributes
from fourfold.ops.top_indices import TopIndices
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
from fourfold.types import TensorType

Classifying = TopK | ArgMax | Softmax
Results = dict[str, str]  # values by output name; '' keeps the name of the processed output


def classify(grown: GrownGraph, option: Classifying, value: str, output: str) -> Results:
    """Append the option's nodes to one output."""
    value = grown.real(value, output)
    if isinstance(option, TopK):
        return _top(grown, option, value, output)
    axis = _axis(grown.type(value), option, output)
    if isinstance(option, ArgMax):
        return {"classes": grown.add("arg_max", value, attributes=ArgMaxAttributes(axis))}
    return {"": _softmax(grown, value, axis)}


def _top(grown: GrownGraph, option: TopK, value: str, output: str) -> Results:
    type_ = grown.type(value)
    if not type_.rank or option.count > type_.channels:
        what = f"output {output!r} has fewer than {option.count} values on its last axis"
        why = f"it is {type_}"
        raise InputError(what, why, f"pass TopK({max(type_.channels, 1)}) or less")
    last = type_.rank - 1
    value = _softmax(grown, value, last) if option.softmax else value
    classes = grown.add("top_indices", value, attributes=TopIndices(option.count), part="classes")
    scores = grown.add("gather", value, classes, attributes=Gather(last, last), part="scores")
    return {"scores": scores, "classes": classes}


def _softmax(grown: GrownGraph, value: str, axis: int) -> str:
    """Apply softmax to an axis, with transposes if it is not the last."""
    rank = len(grown.shape(value))
    order = [*(one for one in range(rank) if one != axis), axis]
    moved = grown.transpose(value, *order)
    result = grown.add("softmax", moved, attributes=SoftmaxAttributes())
    return grown.transpose(result, *(order.index(one) for one in range(rank)))


def _axis(type_: TensorType, option: ArgMax | Softmax, output: str) -> int:
    if not -type_.rank <= option.axis < type_.rank:
        what = f"output {output!r} has no axis {option.axis}"
        raise InputError(what, f"it is {type_}", f"pass an axis below {type_.rank}")
    return option.axis % type_.rank


Ports = dict[str, str]  # values by output name
CLASSES = "classes"


class ProcessedOutput(NamedTuple):
    """A value that the caller gets, the model output it comes from, and its role."""

    value: str
    output: str
    part: str = ""


def attach_postprocess(model: Model, postprocess: PostprocessOption) -> Model:
    """Return the model with post-processing nodes. Its source graph stays unchanged."""
    named = postprocess if isinstance(postprocess, Mapping) else {"": postprocess}
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
        results, taken = classify(grown, option, values[output], output), [output]
    else:
        chosen = {name: values[name]} if name else values
        outputs = DetectorOutputs(grown, chosen, type(option).__name__)
        results, taken = _detect(grown, model, option, outputs), [*outputs.taken]
    return _with_ports(model, grown, values, results, taken)


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
    model: Model, grown: GrownGraph, values: Ports, results: Ports, taken: Sequence[str]
) -> Model:
    """Replace the outputs that were processed, at the position of the first of them."""
    ports: dict[str, ProcessedOutput] = {}
    first = next(name for name in values if name in taken)
    for name, value in values.items():
        if name not in taken:
            ports[name] = ProcessedOutput(value, name)
        elif name == first:
            ports |= {
                _title(part, name, values.keys() - set(taken)): ProcessedOutput(value_, name, part)
                for part, value_ in results.items()
            }
    graph = grown.finish([port.value for port in ports.values()])
    read = partial(_describe, model, tuple(ports.values()))
    return replace(model, main=graph, output_names=tuple(ports), read_metadata=read)


def _title(part: str, output: str, kept: Collection[str]) -> str:
    """Return the name of a result, prefixed with the output's name if another output has that
    name.
    """
    return f"{output}/{part}" if part in kept else part or output


def _describe(model: Model, ports: Sequence[ProcessedOutput]) -> ModelMetadata:
    """Return the metadata with class labels attached to the `classes` result."""
    metadata = model.metadata
    if not metadata.outputs:
        return metadata
    tensors = dict(zip(model.output_names, metadata.outputs, strict=False))
    outputs = tuple(_tensor(tensors.get(port.output), port.part) for port in ports)
    return replace(metadata, outputs=outputs)


def _tensor(tensor: TensorMetadata | None, part: str) -> TensorMetadata:
    if tensor is None or part not in ("", CLASSES):
        return TensorMetadata()
    if not part:
        return tensor
    return TensorMetadata(labels=tuple(replace(one, kind=VALUE) for one in tensor.labels))
