"""Nodes for classification: top-k, argmax, softmax."""

from __future__ import annotations

from fourfold.errors import InputError
from fourfold.ops.arg_max import ArgMax as ArgMaxAttributes
from fourfold.ops.gather import Gather
from fourfold.ops.softmax import Softmax as SoftmaxAttributes
from fourfold.ops.top_indices import TopIndices
from fourfold.postprocess.grown_graph import GrownGraph
from fourfold.processing import ArgMax, Softmax, TopK
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
