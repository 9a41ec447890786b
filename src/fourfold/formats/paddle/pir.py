"""Reads the JSON form of a program, which Paddle 3 writes (inference.json).

Its values have numbers instead of names, and lists of values are values, too. Here values get names
after the operator that writes them, and operators get the parameter names of the older form.
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

MAX_BYTES = 64 << 20  # programs are some megabytes; weights are stored elsewhere
NOTHING = 0  # the number of an omitted value
_BUILTIN, _OPERATOR = "0.", "1."
_OUTPUTS = {f"{_OPERATOR}fetch", f"{_BUILTIN}shadow_output"}


def read_json(content: Content) -> Program:
    """Return the operators of the only block.

    Raises ValueError or a similar error for a damaged program.
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"a program of {len(content)} bytes is larger than {MAX_BYTES}")
    try:
        program = json.loads(bytes(content))["program"]
    except RecursionError as error:
        raise ValueError("its parts are nested too deeply") from error
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
    """Collects the program while it is read; `names` maps a value number to one or more names."""

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
            raise ValueError(f"value {number} is read before it is written")
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
        """Combine and split lists, which only renames values."""
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
        older = OPERATORS.get(title, PirOperator(title))
        results: list[tuple[str, ...]] = []
        for value in operator["O"]:
            count = len(list(_types(value.get("TT"))))
            number = value["%"]
            names = [f"{title}_{number}" + (f".{i}" if count > 1 else "") for i in range(count)]
            self._name(value, names)
            results.append(tuple(names))
        parameters = [*older.inputs, *(f"#{i}" for i in range(len(older.inputs), len(inputs)))]
        read = {name: values for name, values in zip(parameters, inputs, strict=False) if values}
        written = {older.output: results[0]} if results else {}
        written |= {f"#{i}": names for i, names in enumerate(results) if i}
        renamed = {older.attributes.get(name, name): one for name, one in attributes.items()}
        self.operators.append(OperatorRecord(older.type or title, read, written, renamed))


def _types(form: Any) -> Iterator[tuple[DType | None, Shape]]:
    """Yield the types of a value; a list has several."""
    if not isinstance(form, dict):
        yield None, ()
    elif form["#"] == "0.t_vec":
        for one in form["D"]:
            yield from _types(one)
    elif form["#"] == "0.t_dtensor":
        element, sizes, *_ = form["D"]
        if not all(isinstance(size, int) for size in sizes):
            raise ValueError(f"{sizes} are not integer sizes")
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
    """Return a number, a string or a list of these; each may be wrapped with its kind."""
    if isinstance(data, dict):
        data = data.get("D")
    if isinstance(data, list):
        items: list[Any] = [item.get("D") if isinstance(item, dict) else item for item in data]
        are_scalars = all(isinstance(item, bool | int | float | str) for item in items)
        return tuple(items) if are_scalars else None
    return data if isinstance(data, bool | int | float | str) else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    return value
