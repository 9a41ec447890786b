"""Operators on named variables, which persist between runs: they become states."""

from __future__ import annotations

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import VarHandleOptions
from fourfold.formats.tflite.rule import converts
from fourfold.types import DType, TensorType


@converts("VAR_HANDLE", resources=True)
def var_handle(op: Operation) -> None:
    """nothing; a variable is a state, identified by its name."""
    options = op.options(VarHandleOptions)
    op.builder.handles[op.outputs[0]] = f"variable {options.container}/{options.shared_name}"
    op.builder.types[op.outputs[0]] = TensorType(DType.RESOURCE, ())


@converts("READ_VARIABLE", resources=True)
def read_variable(op: Operation) -> None:
    """the current value of the state."""
    type = op.declared[0].with_dtype(DType.F32) if op.clamped else op.declared[0]
    op.give("identity", op.builder.state(_state(op), type))


@converts("ASSIGN_VARIABLE", resources=True)
def assign_variable(op: Operation) -> None:
    """sets the state."""
    builder, value = op.builder, op.input(1)
    if not builder.starting:
        builder.state(_state(op), op.type_of(value))
        builder.states[_state(op)] = op.add("identity", value, part="kept")
    elif value in builder.constants:
        builder.starts[_state(op)] = builder.constants[value]
    else:
        raise Unconvertible(f"the initial value '{value}' of a variable is computed at run time")


def _state(op: Operation) -> str:
    handle = op.input(0)
    if handle not in op.builder.handles:
        raise Unconvertible(f"'{handle}' is not a variable")
    return op.builder.handles[handle]
