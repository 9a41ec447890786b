"""Nodes that say which classes an output means: top-k, argmax, softmax."""

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
Results = dict[str, str]  # values by the names that the caller sees; '' is the output's own


def classify(grown: GrownGraph, option: Classifying, value: str, output: str) -> Results:
    """What the option makes of one output."""
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
        what = f"output {output!r} has no {option.count} best"
        why = f"it is {type_}, and the last axis holds what is compared"
        raise InputError(what, why, f"pass TopK({max(type_.channels, 1)}) or less")
    last = type_.rank - 1
    value = _softmax(grown, value, last) if option.softmax else value
    classes = grown.add("top_indices", value, attributes=TopIndices(option.count), part="classes")
    scores = grown.add("gather", value, classes, attributes=Gather(last, last), part="scores")
    return {"scores": scores, "classes": classes}


def _softmax(grown: GrownGraph, value: str, axis: int) -> str:
    """Over the last axis; another one is brought there and back."""
    rank = len(grown.shape(value))
    order = [*(one for one in range(rank) if one != axis), axis]
    moved = grown.transpose(value, *order)
    found = grown.add("softmax", moved, attributes=SoftmaxAttributes())
    return grown.transpose(found, *(order.index(one) for one in range(rank)))


def _axis(type_: TensorType, option: ArgMax | Softmax, output: str) -> int:
    if not -type_.rank <= option.axis < type_.rank:
        what = f"output {output!r} has no axis {option.axis}"
        raise InputError(what, f"it is {type_}", f"pass an axis below {type_.rank}")
    return option.axis % type_.rank
