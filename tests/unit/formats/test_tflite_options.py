"""The tables of options and numbers agree with the generated schema bindings."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import getsource

import pytest
import tflite

from fourfold.formats.tflite.options import SECOND, TABLES, dataclass_of
from fourfold.formats.tflite.schema import OPERATORS, TYPES
from fourfold.formats.tflite.walk import rules

CODES = {code: name for name, code in vars(tflite.BuiltinOptions).items() if isinstance(code, int)}
CODES |= {
    SECOND + code: name
    for name, code in vars(tflite.BuiltinOptions2).items()
    if isinstance(code, int)
}
FORMS = {"Int8": "Byte", "Int32": "Int", "Bool": "Bool", "Float32": "Float"}
SLOT = re.compile(r"Prepend(\w+)Slot\((\d+), [^,]+, ([-\w.]+)\)")


def slots(name: str) -> dict[int, tuple[str, float]]:
    """Return type and default of each slot of a table in the bindings; 'Ints' for vectors."""
    functions = [getattr(tflite, key) for key in dir(tflite) if key.startswith(f"{name}Add")]
    results: dict[int, tuple[str, float]] = {}
    for function in functions:
        for kind, slot, default in SLOT.findall(getsource(function)):
            results[int(slot)] = (
                FORMS.get(kind, "Ints"),
                0 if kind not in FORMS else float(default),
            )
    return results


@pytest.mark.parametrize("code", sorted(TABLES), ids=lambda code: CODES[code])
def test_options_match_the_schema(code: int) -> None:
    ours = {
        slot: (item.type, float(item.default or 0))
        for slot, item in enumerate(fields(dataclass_of(code)))
    }
    theirs = slots(CODES[code])
    # the first slot is a string; later ones are not read
    if CODES[code] == "StableHLOCompositeOptions":
        theirs = {0: ("Text", 0.0), 1: theirs[1]}
    if CODES[code] == "VarHandleOptions":  # two strings
        theirs = dict.fromkeys(theirs, ("Text", 0.0))
    if CODES[code] == "ResizeBilinearOptions":  # the first two slots are deprecated
        theirs |= {0: ("Int", 0.0), 1: ("Int", 0.0)}
    assert ours == theirs


def test_operator_codes_match_the_schema() -> None:
    codes = {n: code for n, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
    for name, code in codes.items():
        if code < len(OPERATORS):
            assert OPERATORS[code] == name
    assert {rule for rule in rules() if not rule.startswith("CUSTOM ")} <= set(OPERATORS)


def test_type_codes_match_the_schema() -> None:
    names = {"FLOAT": "f", "INT": "i", "UINT": "u", "COMPLEX": "c"}
    for name, code in vars(tflite.TensorType).items():
        if isinstance(code, int) and code < len(TYPES):
            word, bits = re.fullmatch(r"([A-Z]+)(\d*)", name).groups()  # type: ignore[union-attr]
            assert TYPES[code].value == (names[word] + bits if bits else word.lower())
