"""Operators become nodes, errors or refusals, and a refused one does not stop the others."""

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
class Setting:
    """A graph with the input x: f32[2,3]; `run` converts an operator of one input."""

    conversion: Conversion

    @staticmethod
    def of(conversion: Conversion | None = None, **shapes: tuple[int, ...]) -> Setting:
        conversion = conversion or Conversion(GraphBuilder(Budget(1 << 20)))
        conversion.take_inputs([DeclaredInput.of("x", DType.F32, (2, 3))], ReadOptions(shapes))
        return Setting(conversion)

    def run(self, title: str, x: str, y: str, attributes: object = NONE) -> None:
        """An operator with the name of an op, or one that is not known."""
        operator, builder = FileOperator(title, (x,), (y,)), self.conversion.builder

        def add_nodes() -> None:
            if title == "unknown":
                raise Unconvertible("it is not known")
            builder.node(title, (x,), attributes, y, operator.name)

        self.conversion.convert(operator, add_nodes)

    @property
    def refused(self) -> list[str]:
        return [refusal.node for refusal in self.conversion.refusals]


@dataclass
class Typed(Conversion):
    """A file that has types for its values."""

    types: dict[str, str] = field(default_factory=dict)

    def declare(self, value: str) -> bool:
        if value in self.types:
            self.builder.types[value] = TensorType.parse(self.types[value])
        return value in self.types


@dataclass
class Kept(Typed):
    """A format with a CPU engine."""

    kept: list[str] = field(default_factory=list)

    def stand_in(self, operator: FileOperator, reason: str) -> bool:
        self.kept.append(f"{operator}: {reason}")
        return True


def test_a_graph() -> None:
    setting = Setting.of()
    setting.run("relu", "x", "y")
    graph = setting.conversion.finish(["y"], "named")
    assert graph is not None
    assert (graph.inputs, graph.outputs, graph.name) == (("x",), ("y",), "named")


def test_without_types_what_reads_a_refused_value_is_passed_over() -> None:
    setting = Setting.of()
    setting.run("unknown", "x", "a")
    setting.run("relu", "a", "b")
    setting.run("unknown", "b", "c")
    setting.run("unknown", "x", "y")
    assert setting.refused == ["a", "y"]
    assert setting.conversion.finish(["y"]) is None


def test_with_types_more_refusals_are_found() -> None:
    types = {"a": "f32[2,3]", "b": "f32[2,3]", "c": "f32[5]"}
    setting = Setting.of(Typed(GraphBuilder(Budget(1 << 20)), types=types))
    setting.run("unknown", "x", "a")
    setting.run("relu", "a", "b")
    setting.run("unknown", "b", "c")
    assert setting.refused == ["a", "c"]
    setting.run("reshape", "c", "y", Reshape((7,)))  # the file's type of c may be wrong
    assert setting.refused == ["a", "c"]


def test_a_cpu_engine_takes_what_is_not_converted() -> None:
    conversion = Kept(GraphBuilder(Budget(1 << 20)), types={"a": "f32[2,3]", "y": "f32[7]"})
    setting = Setting.of(conversion)
    setting.run("unknown", "x", "a")
    setting.run("reshape", "a", "y", Reshape((7,)))
    assert setting.refused == []
    assert conversion.kept[0] == "unknown 'a': it is not known"
    assert conversion.kept[1].startswith("reshape 'y': reshape: ")


def test_a_rule_that_says_no_to_floats_is_an_error() -> None:
    with pytest.raises(ModelError, match="reshape 'y' cannot take its inputs"):
        Setting.of().run("reshape", "x", "y", Reshape((7,)))


def test_a_rule_that_says_no_to_other_types_is_a_refusal() -> None:
    setting = Setting.of()
    setting.conversion.builder.types["i"] = TensorType.parse("i32[2]")
    setting.run("exp", "i", "y")
    assert setting.refused == ["y"]


def test_with_the_callers_shapes_it_is_the_callers_error() -> None:
    setting = Setting.of(x=(5, 7))
    with pytest.raises(InputError, match="reshape 'y' does not fit the requested shapes"):
        setting.run("reshape", "x", "y", Reshape((6,)))
    with pytest.raises(InputError, match="relu 'q' does not fit the requested shapes"):
        setting.run("relu", "nothing", "q")


def write_twice(setting: Setting) -> None:
    setting.run("relu", "x", "y")
    setting.run("abs", "x", "y")


def write_a_constant(setting: Setting) -> None:
    setting.conversion.builder.constant("c", np.zeros(3, np.float32))
    setting.run("relu", "x", "c")


def two_alike(setting: Setting) -> None:
    setting.conversion.convert(FileOperator("Split", ("x",), ("y", "y")), lambda: None)


def give_nothing(setting: Setting) -> None:
    setting.conversion.convert(FileOperator("Split", ("x",), ("y", "z")), lambda: None)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (write_twice, "it writes 'y', which already has a value"),
        (write_a_constant, "it writes 'c', which already has a value"),
        (two_alike, "two of its outputs are the same"),
        (give_nothing, "'y' is not an output that this op has"),
        (lambda setting: setting.run("relu", "x", "x"), "it writes 'x'"),
        (lambda setting: setting.run("relu", "z", "z"), "it reads a value that it writes"),
        (lambda setting: setting.run("relu", "z", "y"), "no earlier operator has written"),
        (lambda setting: setting.conversion.finish(["y"]), "output 'y' of graph 'main'"),
    ],
)
def test_damage(act: Callable[[Setting], None], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        act(Setting.of())


def test_inputs_are_values_of_their_own_that_can_be_arrays() -> None:
    conversion = Conversion(GraphBuilder(Budget(1 << 20)))
    texts = DeclaredInput.of("t", DType.STRING, (2,))
    conversion.take_inputs([texts], ReadOptions())
    assert [str(refusal) for refusal in conversion.refusals] == [
        "input 't': 't' holds string values, which are not supported"
    ]
    with pytest.raises(ModelError, match="input 't' is listed twice"):
        conversion.take_inputs([texts], ReadOptions())


def test_the_error_lists_all_refusals() -> None:
    setting = Setting.of()
    setting.run("unknown", "x", "a")
    setting.run("unknown", "x", "b")
    error: FourfoldError = unsupported("'m.made'", setting.conversion.refusals)
    assert error.what == "'m.made' has 2 nodes that cannot be converted"
    assert "unknown 'a'" in error.why
    assert "unknown 'b'" in error.why


def test_damage_of_a_file_says_what_it_is_not() -> None:
    with pytest.raises(ModelError) as found, report_damage("'x'", "toy model"):
        raise ValueError("no graph")
    assert (found.value.what, found.value.why) == ("'x' is not a valid toy model", "no graph")
    assert "report it" in found.value.fix
    with (
        pytest.raises(ModelError, match="RecursionError"),
        report_damage("'x'", "toy", RecursionError),
    ):
        raise RecursionError
    with pytest.raises(RecursionError), report_damage("'x'", "toy"):
        raise RecursionError
