"""Models are cut at values by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_networks import small_network, small_onnx

from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.rewrite import check
from fourfold.errors import InputError
from fourfold.export.optimize.optimizer import cut_model
from fourfold.formats import Model, read_model
from fourfold.graph import Graph, Node
from fourfold.types import TensorType


def network() -> Model:
    graph = small_network()
    return Model(graph, graph.inputs, graph.outputs)


def ops(model: Model) -> list[str]:
    return [node.op for node in model.main.nodes]


def test_without_names_nothing_is_cut() -> None:
    model = network()
    assert cut_model(model, (), ()) is model


def test_cutting_at_an_output_drops_later_operators() -> None:
    cut = cut_model(network(), (), ("features",))
    check(cut.main)
    assert ops(cut) == ["conv2d", "mul", "add", "relu"]
    assert (cut.input_names, cut.output_names) == (("image",), ("features",))
    assert "weights" not in cut.main.constants


def test_cutting_at_an_input_drops_earlier_operators() -> None:
    cut = cut_model(network(), ("features",), ("scores",))
    check(cut.main)
    assert ops(cut) == ["reshape", "fully_connected"]
    features = np.random.default_rng(3).uniform(-1, 1, (1, 3, 4, 4)).astype(np.float32)
    (scores,) = evaluate(cut.main, {"features": features}).values()
    assert np.allclose(scores, features.reshape(1, 48) @ small_network().constants["weights"].T)


def test_the_outputs_stay_in_the_order_of_the_caller() -> None:
    cut = cut_model(network(), (), ("twice", "features", "scores"))
    assert cut.main.results == cut.output_names == ("twice", "features", "scores")


def test_the_values_of_a_file_have_the_names_and_shapes_of_the_file() -> None:
    cut = cut_model(read_model(small_onnx()), (), ("features/channels_first",))
    check(cut.main)
    (output,) = cut.main.results
    assert cut.main.types[output] == TensorType.parse("f32[1,4,3,4]")


@pytest.mark.parametrize(
    ("inputs", "outputs", "what", "fix"),
    [
        ((), ("feature",), "no value 'feature'", "did you mean 'features'"),
        (("imag",), (), "no value 'imag'", "did you mean 'image'"),
        (("filters",), (), "'filters' cannot be an input", "a computed value"),
        (("twice",), ("features",), "'twice' is not needed", "leave it out"),
        (("scaled",), ("sum", "twice"), "do not cut the model", "add 'image'"),
    ],
)
def test_an_impossible_cut_raises_an_error_with_the_reason(
    inputs: tuple[str, ...], outputs: tuple[str, ...], what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as raised:
        cut_model(network(), inputs, outputs)
    assert fix in raised.value.fix


def test_long_lists_of_names_are_cut_short() -> None:
    graph = small_network()
    names = {f"some_long_name_{number}": graph.types["flat"] for number in range(50)}
    model = replace(network(), main=replace(graph, types={**graph.types, **names}))
    with pytest.raises(InputError) as raised:
        cut_model(model, (), ("?",))
    assert len(raised.value.fix) < 300


def test_a_state_in_use_stays_with_its_next_value() -> None:
    type_ = TensorType.parse("f32[3]")
    nodes = (
        Node("add", ("x", "before"), ("sum",)),
        Node("tanh", ("sum",), ("after",)),
        Node("exp", ("sum",), ("y",)),
    )
    types = dict.fromkeys(("x", "before", "sum", "after", "y"), type_)
    graph = Graph(nodes, ("x", "before"), ("y", "after"), types, states={"before": "after"})
    cut = cut_model(Model(graph, ("x",), ("y",)), (), ("sum",))
    check(cut.main)
    assert ops(cut) == ["add", "tanh"]
    assert cut.main.states == {"before": "after"}
    assert cut.main.results == ("sum",)


def test_other_results_of_a_node_that_becomes_an_input_remain() -> None:
    """A node has two results: one becomes an input, the other is still computed."""
    type_ = TensorType.parse("f32[3]")
    pair = Node("custom", ("x",), ("a", "b"))
    nodes = (pair, Node("add", ("a", "b"), ("y",)))
    types = dict.fromkeys(("x", "a", "b", "y"), type_)
    graph = Graph(nodes, ("x",), ("y",), types)
    with pytest.raises(InputError, match="do not cut"):
        cut_model(Model(graph, ("x",), ("y",)), ("a",), ())
    cut = cut_model(Model(graph, ("x",), ("y",)), ("a", "x"), ())
    assert cut.main.nodes[0].outputs == ("a/beside", "b")
    assert cut.main.inputs == ("a", "x")
