"""Graphs for Model Explorer and Netron are complete and have the times of kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from small_networks import deep_onnx, small_onnx
from stateful_models import stream
from tflite_writer import Operator, Tensor, write

from fourfold.backends.cpu.reference import NumpyPart
from fourfold.backends.null import NULL_GPU
from fourfold.cli import main
from fourfold.compiler.compile import load_model
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.options import CompileOptions
from fourfold.runtime.profile import KernelTime
from fourfold.tools.report.model_explorer import REWRITTEN, ExploredModel, explore_model
from fourfold.tools.report.rewritten_onnx import rewritten_onnx

# The fields of Model Explorer's own classes, which accept no others.
NODE = {"id", "label", "namespace", "attrs", "incomingEdges", "outputsMetadata"}
EDGE = {"sourceNodeId", "sourceNodeOutputId", "targetNodeInputId"}


def explored(model: bytes) -> ExploredModel:
    return explore_model(model, "small.onnx", NULL_GPU, CompileOptions(launches="list"))


def graphs_of(model: ExploredModel) -> dict[str, dict[str, Any]]:
    """Return the nodes of each graph by id."""
    collection = json.loads(json.dumps(model.to_json()))
    assert set(collection) == {"label", "graphs", "graphSorting"}
    found = {}
    for graph in collection["graphs"]:
        found[graph["id"]] = {node["id"]: node for node in graph["nodes"]}
        assert len(found[graph["id"]]) == len(graph["nodes"]), "ids are unique"
    return found


@pytest.mark.parametrize("content", [small_onnx(), deep_onnx(), stream()])
def test_graphs_are_whole(content: bytes) -> None:
    graphs = graphs_of(explored(content))
    assert [*graphs] == sorted(graphs) == ["graph", REWRITTEN, "plan"]
    for nodes in graphs.values():
        for node in nodes.values():
            assert set(node) == NODE
            assert all(set(edge) == EDGE for edge in node["incomingEdges"])
            assert all(edge["sourceNodeId"] in nodes for edge in node["incomingEdges"])
            pairs = [
                *node["attrs"],
                *(one for out in node["outputsMetadata"] for one in out["attrs"]),
            ]
            assert all(isinstance(pair["value"], str) for pair in pairs)
            assert node["label"].startswith("input ") or node["incomingEdges"]
            ends = node["label"].startswith("output ")
            assert not (ends and node["outputsMetadata"]), "it would get the time of the last node"


def test_nodes_have_labels_and_attributes() -> None:
    graphs = graphs_of(explored(small_onnx()))
    labels = [node["label"] for node in graphs["graph"].values()]
    assert labels.count("conv2d") == 1
    assert (labels[0], labels[-1]) == ("input image", "output twice")
    (features,) = (one for one in graphs[REWRITTEN].values() if one["label"] == "conv2d")
    attributes = {pair["key"]: pair["value"] for pair in features["attrs"]}
    assert attributes["op"] == "conv2d"
    assert attributes["tail"] == "relu"
    assert attributes["padding"] == "top 0, bottom 0, left 0, right 0"
    assert attributes["constant 0"] == "f32[4,3,3,3] sum/channels_first/filters/scaled"
    shape = {"key": "tensor_shape", "value": "f32[1,3,4,4]"}
    assert shape in features["outputsMetadata"][0]["attrs"]
    kernel = {pair["key"] for pair in graphs["plan"][features["id"]]["attrs"]}
    assert {"kernel", "grid", "work-group", "arguments"} <= kernel


def test_layers_are_those_of_the_first_of_joined_names() -> None:
    """TFLite's converter joins the names of operators that it fuses."""
    tensors = [Tensor("x", (1, 8)), Tensor("a/b/relu;a/c/d/fold", (1, 8)), Tensor("y", (1, 8))]
    operators = [
        Operator("RELU", ["x"], [tensors[1].name]),
        Operator("TANH", [tensors[1].name], ["y"]),
    ]
    graphs = graphs_of(explored(write(tensors, operators, ["x"], ["y"])))
    assert graphs["graph"][tensors[1].name]["namespace"] == "a/b"


def in_two_kernels() -> ExploredModel:
    """Pretend that each kernel is launched twice."""
    model = explored(deep_onnx())
    return replace(model, launches={node: [*one, *one] for node, one in model.launches.items()})


def test_kernels_of_one_node_are_a_chain() -> None:
    graphs = graphs_of(in_two_kernels())
    last = [*graphs[REWRITTEN]][-2]
    first, second = (graphs["plan"][name] for name in (f"{last} #1", last))
    before = [*graphs[REWRITTEN]][-3]
    assert [edge["sourceNodeId"] for edge in first["incomingEdges"]] == [before]
    assert [edge["sourceNodeId"] for edge in second["incomingEdges"]] == [first["id"]]
    assert first["namespace"] == second["namespace"] == last
    assert not first["outputsMetadata"]


def test_times_belong_to_nodes() -> None:
    model = in_two_kernels()
    launches = [launch for found in model.launches.values() for launch in found]
    times = [KernelTime(launch.entry, launch.node, 1e-6) for launch in launches]
    data = model.times_json([KernelTime("fetch", "an input", 5.0), *times])
    graphs = graphs_of(model)
    assert set(data["plan"]["results"]) <= set(graphs["plan"])
    assert set(data[REWRITTEN]["results"]) <= set(graphs[REWRITTEN])
    for one in data.values():
        assert sum(result["value"] for result in one["results"].values()) == len(launches)
    assert [stop["stop"] for stop in data["plan"]["gradient"]] == [0.0, 0.5, 1.0]


def test_the_rewritten_graph_in_onnx_computes_the_same() -> None:
    content = rewritten_onnx(small_onnx(), CompileOptions())
    before, after = (load_model(one, CompileOptions()).graph for one in (small_onnx(), content))
    assert "mul" not in {node.op for node in after.nodes if "features" in node.outputs}
    image = np.random.default_rng(2).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)
    for found, expected in zip(
        NumpyPart(after).run([image]), NumpyPart(before).run([image]), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_every_value_of_the_onnx_file_has_its_shape() -> None:
    """Netron shows types next to edges; ONNX's shape inference finds the same types."""
    model = onnx.load_from_string(rewritten_onnx(deep_onnx(), CompileOptions()))
    onnx.checker.check_model(model, full_check=True)
    ends = (*model.graph.input, *model.graph.output)
    typed = {value.name for value in (*ends, *model.graph.value_info)}
    assert {name for node in model.graph.node for name in node.output} <= typed


def quantised_layers() -> bytes:
    """Return a graph of two layers with a quantized value between them."""
    weights = np.arange(-32, 32, dtype=np.int8).reshape(8, 8)
    tensors = [
        *(Tensor(name, (1, 8), "int8", scale=[0.25]) for name in "xyz"),
        Tensor("weights", (8, 8), "int8", weights, scale=[0.1], zero_point=[0]),
        Tensor("bias", (8,), "int32", np.arange(8, dtype=np.int32), [0.025], [0]),
    ]
    layers = [
        Operator("FULLY_CONNECTED", [source, "weights", "bias"], [result])
        for source, result in ("xy", "yz")
    ]
    return write(tensors, layers, ["x"], ["z"])


def test_steps_of_one_are_not_multiplied() -> None:
    """Quantized values of a rewritten graph are numbers of steps and are rounded directly."""
    graph = onnx.load_from_string(rewritten_onnx(quantised_layers(), CompileOptions())).graph
    assert "Round" in [node.op_type for node in graph.node]
    numbers = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    factors = {name for node in graph.node if node.op_type == "Mul" for name in node.input}
    assert not [name for name in factors & numbers.keys() if np.all(numbers[name] == 1)]


def test_operators_missing_in_onnx_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="rewritten graph cannot be written") as caught:
        rewritten_onnx(stream(), CompileOptions())
    assert "persist between runs" in caught.value.why
    assert "--export model-explorer" in caught.value.fix


def test_the_command_writes_files(device: DeviceInfo, tmp_path: Path) -> None:
    model, output = tmp_path / "deep.onnx", tmp_path / "deep.json"
    model.write_bytes(deep_onnx())
    words = ["explain", str(model), "--export", "model-explorer", "-o", str(output)]
    result = CliRunner().invoke(main, [*words, "--times", "--device", device.address])
    assert result.exit_code == 0, result.output
    ids = {
        node["id"] for graph in json.loads(output.read_text())["graphs"] for node in graph["nodes"]
    }
    times = json.loads((tmp_path / "deep.times.json").read_text())
    assert times["plan"]["results"]
    assert set(times["plan"]["results"]) <= ids


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--export", "onnx"], "name the file with -o"),
        (["--export", "onnx", "-o", "x.onnx", "--times"], "ONNX files hold no times"),
        (["--export", "onnx", "-o", "no/such/folder/x.onnx"], "can be written to"),
    ],
)
def test_the_command_refuses_invalid_options(words: list[str], said: str, tmp_path: Path) -> None:
    model = tmp_path / "small.onnx"
    model.write_bytes(small_onnx())
    result = CliRunner().invoke(main, ["explain", str(model), *words])
    assert result.exit_code != 0
    assert said in result.output


def test_a_prepared_file_has_no_graph(tmp_path: Path) -> None:
    model = tmp_path / "small.fourfold"
    model.write_bytes(b"FOURFOLD and more")
    result = CliRunner().invoke(main, ["explain", str(model), "--export", "onnx", "-o", "x.onnx"])
    assert result.exit_code != 0
    assert "it was prepared from" in result.output
