"""Makes a graph ready for quantising: nothing is left in it that a weighted sum could take in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.rewrite import Pass
from fourfold.rewrite.drop_identities import drop_identities
from fourfold.rewrite.drop_unused import drop_unused
from fourfold.rewrite.find_hard_swish import find_hard_swish
from fourfold.rewrite.find_prelu import find_prelu
from fourfold.rewrite.fold_constants import fold_constants
from fourfold.rewrite.fold_dilation import fold_dilation
from fourfold.rewrite.fold_scales import fold_scales
from fourfold.rewrite.hoist_transposes import hoist_transposes
from fourfold.rewrite.merge_reshapes import merge_reshapes
from fourfold.rewrite.share_equal import share_equal
from fourfold.rewrite.sink_transposes import sink_transposes
from fourfold.types import silent_arithmetic

_PASSES: tuple[Pass, ...] = (
    fold_constants,
    sink_transposes,
    drop_identities,
    hoist_transposes,
    merge_reshapes,
    find_prelu,
    find_hard_swish,
    share_equal,
    drop_unused,
    fold_dilation,
    fold_scales,
)
_INTEGERS = frozenset({"dequantize", "fake_quantize", "quantize"})


@silent_arithmetic()
def simplify_model(model: Model) -> Model:
    """The model with its main graph made ready; an InputError where it is quantised already."""
    done = next((node for node in model.main.nodes if node.op in _INTEGERS), None)
    if done is not None:
        why = f"its value '{done.outputs[0]}' is one of integers that stand for real numbers"
        raise InputError("the model is quantised already", why, "pass the float model")
    graph = model.main
    for run in _PASSES:
        graph = run(graph)
    return replace(model, main=graph)


def float_bytes(graph: Graph) -> int:
    """How much memory the constants of a graph take as floats."""
    return sum(np.asarray(array).nbytes for array in graph.constants.values())
