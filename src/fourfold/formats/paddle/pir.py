"""Reads the JSON form of a program, which Paddle 3 writes (inference.json).

Its values have numbers instead of names, and lists of values are values, too. Here they get names
after the operator that gives them, and operators get the names of parameters of the older form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fourfold.formats.paddle.pir_operators import OPERATORS, PirOperator
from fourfold.formats.paddle.records import Attribute, OperatorRecord, Program, Variable
from fourfold.formats.paddle.schema import SHORT_ELEMENTS
from fourfold.formats.source import Content
from fourfold.types import DType, Shape

LONGEST = 64 << 20  # bytes; programs are some megabytes, and weights lie elsewhere
NOTHING = 0  # the number of a value that is left out
_BUILTIN, _OPERATOR = "0.", "1."
_OUTPUTS = {f"{_OPERATOR}fetch", f"{_BUILTIN}shadow_output"}


def read_json(content: Content) -> Program:
    """The operators of the only block; ValueError and the like where something is wrong."""
    if len(content) > LONGEST:
        raise ValueError(f"a program of {len(content)} bytes is larger than {LONGEST}")
    try:
        program = json.loads(bytes(content))["program"]
    except RecursionError as error:
        raise ValueError("its parts lie too deep inside of each other") from error
    (region,) = program["regions"]
    (block,) = region["blocks"]
    reader = _Reader()
    for operator in block["ops"]:
        reader.add(operator)
    return Program(
        operators=tuple(reader.operators),
        variables=reader.variables,
        feeds=tuple(reader.feeds),
        fetches=reader.fetches,
        parameters=tuple(sorted(reader.parameters)),
    )


@dataclass
class _Reader:
    """What is known so far. A number stands for one name, or for several where it is a list."""

    names: dict[int, tuple[str, ...]] = field(default_factory=lambda: {NOTHING: ()})
    variables: dict[str, Variable] = field(default_factory=dict)
    operators: list[OperatorRecord] = field(default_factory=list)
    feeds: list[str] = field(default_factory=list)
    fetches: dict[str, str] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)

    def add(self, operator: Mapping[str, Any]) -> None:
        kind = _text(operator["#"])
        if kind == "p":
            self._add_parameter(operator)
            return
        inputs = [self._get(one) for one in operator.get("I", ())]
        attributes = dict(_attributes(operator.get("A", ())))
        if kind in _OUTPUTS:
            (value,) = inputs[0]
            name = attributes.get("output_name", attributes.get("name", value))
            self.fetches[_text(name)] = value
        elif kind == f"{_OPERATOR}data":
            name = _text(attributes["name"])
            self.feeds.append(name)
            self._name(operator["O"][0], [name])
        elif kind.startswith(_BUILTIN):
            self._add_builtin(kind, operator, inputs, attributes)
        else:
            self._add_operator(kind, operator, inputs, attributes)

    def _get(self, value: Mapping[str, Any]) -> tuple[str, ...]:
        number = value["%"]
        if number not in self.names:
            raise ValueError(f"value {number} is read before it is there")
        return self.names[number]

    def _name(self, value: Mapping[str, Any], names: Sequence[str]) -> None:
        types = list(_types(value.get("TT")))
        for name, (dtype, sizes) in zip(names, types, strict=False):
            self.variables[name] = Variable(dtype, sizes)
        self.names[value["%"]] = tuple(names)

    def _add_parameter(self, operator: Mapping[str, Any]) -> None:
        name = _text(operator["A"][-1])
        self._name(operator["O"], [name])
        self.parameters.append(name)

    def _add_builtin(
        self,
        kind: str,
        operator: Mapping[str, Any],
        inputs: Sequence[tuple[str, ...]],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Lists are put together and taken apart, which changes no value."""
        outputs = operator["O"]
        if kind == f"{_BUILTIN}combine":
            self._name(outputs[0], [name for names in inputs for name in names])
        elif kind == f"{_BUILTIN}split":
            for value, name in zip(outputs, inputs[0], strict=True):
                self._name(value, [name])
        elif kind == f"{_BUILTIN}slice":
            index = attributes.get("index")
            assert isinstance(index, int)
            self._name(outputs[0], [inputs[0][index]])
        else:
            self._add_operator(kind, operator, inputs, attributes)

    def _add_operator(
        self,
        kind: str,
        operator: Mapping[str, Any],
        inputs: Sequence[tuple[str, ...]],
        attributes: Mapping[str, Attribute],
    ) -> None:
        title = kind.partition(".")[2]
        known = OPERATORS.get(title, PirOperator(title))
        results: list[tuple[str, ...]] = []
        for value in operator["O"]:
            count = len(list(_types(value.get("TT"))))
            number = value["%"]
            names = [f"{title}_{number}" + (f".{i}" if count > 1 else "") for i in range(count)]
            self._name(value, names)
            results.append(tuple(names))
        parameters = [*known.inputs, *(f"#{i}" for i in range(len(known.inputs), len(inputs)))]
        read = {name: values for name, values in zip(parameters, inputs, strict=False) if values}
        written = {known.output: results[0]} if results else {}
        written |= {f"#{i}": names for i, names in enumerate(results) if i}
        renamed = {known.attributes.get(name, name): one for name, one in attributes.items()}
        self.operators.append(OperatorRecord(known.type or title, read, written, renamed))


def _types(form: Any) -> Iterator[tuple[DType | None, Shape]]:
    """The types of a value: those of its parts where it is a list."""
    if not isinstance(form, dict):
        yield None, ()
    elif form["#"] == "0.t_vec":
        for one in form["D"]:
            yield from _types(one)
    elif form["#"] == "0.t_dtensor":
        element, sizes, *_ = form["D"]
        if not all(isinstance(size, int) for size in sizes):
            raise ValueError(f"{sizes} are no sizes")
        short = _text(element["#"]).removeprefix("0.t_")
        yield SHORT_ELEMENTS.get(short), tuple(sizes)
    else:
        yield None, ()


def _attributes(forms: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Attribute]]:
    for form in forms:
        value = _value(form["AT"].get("D"))
        if value is not None:
            yield _text(form["N"]), value


def _value(data: Any) -> Attribute | None:
    """A number, a text, or a list of one of these; each may be wrapped with its kind."""
    if isinstance(data, dict):
        data = data.get("D")
    if isinstance(data, list):
        items: list[Any] = [item.get("D") if isinstance(item, dict) else item for item in data]
        plain = all(isinstance(item, bool | int | float | str) for item in items)
        return tuple(items) if plain else None
    return data if isinstance(data, bool | int | float | str) else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
