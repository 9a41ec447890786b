"""The rewritten graph as an ONNX file, for those who look at models with Netron."""

from __future__ import annotations

from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import load_model, prepare_lowering
from fourfold.errors import UnsupportedError
from fourfold.formats import formats
from fourfold.formats.tflite.write_graph.expand import expand_nodes
from fourfold.formats.writable import WritableModel
from fourfold.options import CompileOptions

_WHAT = "the rewritten graph cannot be said in ONNX"
_FIX = "look at it with --export model-explorer, which takes any operator"


def rewritten_onnx(model: str | bytes, options: CompileOptions) -> bytes:
    """What the passes before lowering made of a model. What runs in one kernel, such as tails, is
    several operators there; what ONNX has no operator for is an UnsupportedError.
    """
    loaded = load_model(model, options)
    graph = expand_nodes(prepare_lowering(loaded.graph, NULL_GPU, options).graph)
    names = (loaded.model.input_names, loaded.model.output_names)
    try:
        return formats()["onnx"].write(WritableModel(graph, *names, for_viewers=True))
    except UnsupportedError as error:
        raise UnsupportedError(_WHAT, error.refusals, _FIX) from error
