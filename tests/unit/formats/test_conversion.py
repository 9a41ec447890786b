"""Operators are converted to nodes, errors or refusals, and a refusal does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from fourfold.errors import FourfoldError, InputError, ModelError
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.conversion import Conversion, FileOperator, report_damage, unsupported
from fourfold.formats.inputs import DeclaredInput, ReadOptions
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import NONE
from fourfold.ops.reshape import Reshape
from fourfold.types import DType, TensorType


@dataclass
class ConversionFixture:
    """A graph with the input x: f32[2,3]; `run` converts an operator of one input."""

    conversion: Conversion

    @staticmethod
    def of(conversion: Conversion | None = None, **shapes: tuple[int, ...]) -> ConversionFixture:
        conversion = conversion or Conversion(GraphBuilder(Budget(1 << 20)))
        conversion.take_inputs([DeclaredInput.of("x", DType.F32, (2, 3))], ReadOptions(shapes))
        return ConversionFixture(conversion)

    def run(self, title: str, x: str, y: str, attributes: object = NONE) -> None:
        """Convert an operator named like an op, or an unknown one."""
        operator, builder = FileOperator(title, (x,), (y,)), self.conversion.builder

        def add_nodes() -> None:
            if title == "unknown":
                raise Unconvertible("unknown operator")
            builder.node(title, (x,), attributes, y, operator.name)

        self.conversion.convert(operator, add_nodes)

    @property
    def refused(self) -> list[str]:
        return [refusal.node for refusal in self.conversion.refusals]


@dataclass
class TypedConversion(Conversion):
    """A conversion of a file that declares types of its values."""

    types: dict[str, str] = field(default_factory=dict)

    def declare(self, value: str) -> bool:
        if value in self.types:
            self.builder.types[value] = TensorType.parse(self.types[value])
        return value in self.types


@dataclass
class EngineConversion(TypedConversion):
    """A conversion of a format that has a CPU engine."""

    kept: list[str] = field(default_factory=list)

    def stand_in(self, operator: FileOperator, reason: str) -> bool:
        self.kept.append(f"{operator}: {reason}")
        return True


def test_converts_a_graph() -> None:
    setting = ConversionFixture.of()
    setting.run("relu", "x", "y")
    graph = setting.conversion.finish(["y"], "named")
    assert graph is not None
    assert (graph.inputs, graph.outputs, graph.name) == (("x",), ("y",), "named")


def test_skips_readers_of_refused_values_without_declared_types() -> None:
    setting = ConversionFixture.of()
    setting.run("unknown", "x", "a")
    setting.run("relu", "a", "b")
    setting.run("unknown", "b", "c")
    setting.run("unknown", "x", "y")
    assert setting.refused == ["a", "y"]
    assert setting.conversion.finish(["y"]) is None


def test_declared_types_allow_further_refusals() -> None:
    types = {"a": "f32[2,3]", "b": "f32[2,3]", "c": "f32[5]"}
    setting = ConversionFixture.of(TypedConversion(GraphBuilder(Budget(1 << 20)), types=types))
    setting.run("unknown", "x", "a")
    setting.run("relu", "a", "b")
    setting.run("unknown", "b", "c")
    assert setting.refused == ["a", "c"]
    setting.run("reshape", "c", "y", Reshape((7,)))  # the declared type of c may be wrong
    assert setting.refused == ["a", "c"]


def test_cpu_engine_takes_unconverted_operators() -> None:
    conversion = EngineConversion(
        GraphBuilder(Budget(1 << 20)), types={"a": "f32[2,3]", "y": "f32[7]"}
    )
    setting = ConversionFixture.of(conversion)
    setting.run("unknown", "x", "a")
    setting.run("reshape", "a", "y", Reshape((7,)))
    assert setting.refused == []
    assert conversion.kept[0] == "unknown 'a': unknown operator"
    assert conversion.kept[1].startswith("reshape 'y': reshape: ")


def test_type_mismatch_of_floats_is_an_error() -> None:
    with pytest.raises(ModelError, match="reshape 'y' cannot take its inputs"):
        ConversionFixture.of().run("reshape", "x", "y", Reshape((7,)))


def test_type_mismatch_of_other_types_is_a_refusal() -> None:
    setting = ConversionFixture.of()
    setting.conversion.builder.types["i"] = TensorType.parse("i32[2]")
    setting.run("exp", "i", "y")
    assert setting.refused == ["y"]


def test_mismatch_with_requested_shapes_is_an_input_error() -> None:
    setting = ConversionFixture.of(x=(5, 7))
    with pytest.raises(InputError, match="reshape 'y' does not fit the requested shapes"):
        setting.run("reshape", "x", "y", Reshape((6,)))
    with pytest.raises(InputError, match="relu 'q' does not fit the requested shapes"):
        setting.run("relu", "nothing", "q")


def write_twice(setting: ConversionFixture) -> None:
    setting.run("relu", "x", "y")
    setting.run("abs", "x", "y")


def write_a_constant(setting: ConversionFixture) -> None:
    setting.conversion.builder.constant("c", np.zeros(3, np.float32))
    setting.run("relu", "x", "c")


def repeat_an_output(setting: ConversionFixture) -> None:
    setting.conversion.convert(FileOperator("Split", ("x",), ("y", "y")), lambda: None)


def omit_an_output(setting: ConversionFixture) -> None:
    setting.conversion.convert(FileOperator("Split", ("x",), ("y", "z")), lambda: None)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (write_twice, "it writes 'y', which already has a value"),
        (write_a_constant, "it writes 'c', which already has a value"),
        (repeat_an_output, "two of its outputs are the same"),
        (omit_an_output, "'y' is not an output that this op has"),
        (lambda setting: setting.run("relu", "x", "x"), "it writes 'x'"),
        (lambda setting: setting.run("relu", "z", "z"), "it reads a value that it writes"),
        (lambda setting: setting.run("relu", "z", "y"), "no earlier operator has written"),
        (lambda setting: setting.conversion.finish(["y"]), "output 'y' of graph 'main'"),
    ],
)
def test_rejects_invalid_graphs(act: Callable[[ConversionFixture], None], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        act(ConversionFixture.of())


def test_rejects_string_and_duplicate_inputs() -> None:
    conversion = Conversion(GraphBuilder(Budget(1 << 20)))
    texts = DeclaredInput.of("t", DType.STRING, (2,))
    conversion.take_inputs([texts], ReadOptions())
    assert [str(refusal) for refusal in conversion.refusals] == [
        "input 't': 't' holds string values, which are not supported"
    ]
    with pytest.raises(ModelError, match="input 't' is listed twice"):
        conversion.take_inputs([texts], ReadOptions())


def test_error_lists_all_refusals() -> None:
    setting = ConversionFixture.of()
    setting.run("unknown", "x", "a")
    setting.run("unknown", "x", "b")
    error: FourfoldError = unsupported("'m.made'", setting.conversion.refusals)
    assert error.what == "'m.made' has 2 nodes that cannot be converted"
    assert "unknown 'a'" in error.why
    assert "unknown 'b'" in error.why


def test_report_damage_names_the_format() -> None:
    with pytest.raises(ModelError) as caught, report_damage("'x'", "toy model"):
        raise ValueError("no graph")
    assert (caught.value.what, caught.value.why) == ("'x' is not a valid toy model", "no graph")
    assert "report it" in caught.value.fix
    with (
        pytest.raises(ModelError, match="RecursionError"),
        report_damage("'x'", "toy", RecursionError),
    ):
        raise RecursionError
    with pytest.raises(RecursionError), report_damage("'x'", "toy"):
        raise RecursionError
