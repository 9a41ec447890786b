"""The rewritten graph as an ONNX file, for viewers such as Netron."""

from __future__ import annotations

from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import load_model, prepare_lowering
from fourfold.errors import UnsupportedError
from fourfold.formats import formats
from fourfold.formats.tflite.write_graph.expand import expand_nodes
from fourfold.formats.writable import WritableModel
from fourfold.options import CompileOptions

_WHAT = "the rewritten graph cannot be written as ONNX"
_FIX = "use --export model-explorer, which takes any operator"


def rewritten_onnx(model: str | bytes, options: CompileOptions) -> bytes:
    """Return a model after the rewrite passes, as ONNX. Fused operators, such as tails, become
    several operators; UnsupportedError for an operator that ONNX does not have.
    """
    loaded = load_model(model, options)
    graph = expand_nodes(prepare_lowering(loaded.graph, NULL_GPU, options).graph)
    inputs, outputs = loaded.model.input_names, loaded.model.output_names
    try:
        return formats()["onnx"].write(WritableModel(graph, inputs, outputs, for_viewers=True))
    except UnsupportedError as error:
        raise UnsupportedError(_WHAT, error.refusals, _FIX) from error
