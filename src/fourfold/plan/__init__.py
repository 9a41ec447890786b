"""Plan: a compiled model as plain data, and its file form."""

from fourfold.plan.compiled import CompiledModel, Part
from fourfold.plan.compiled_record import compiled_sections, read_compiled_model
from fourfold.plan.container import Container, Section, container_bytes, write_container
from fourfold.plan.data import (
    ARENA,
    BUFFER_ALIGNMENT,
    CONSTANT_ALIGNMENT,
    CONSTANTS,
    HOST_KINDS,
    Argument,
    Buffer,
    BufferUse,
    InputsOnDevice,
    Launch,
    Plan,
    Port,
    Program,
    padded,
)
from fourfold.plan.record import plan_record, read_plan
from fourfold.plan.requirements import Requirements

__all__ = [
    "ARENA",
    "BUFFER_ALIGNMENT",
    "CONSTANTS",
    "CONSTANT_ALIGNMENT",
    "HOST_KINDS",
    "Argument",
    "Buffer",
    "BufferUse",
    "CompiledModel",
    "Container",
    "InputsOnDevice",
    "Launch",
    "Part",
    "Plan",
    "Port",
    "Program",
    "Requirements",
    "Section",
    "compiled_sections",
    "container_bytes",
    "padded",
    "plan_record",
    "read_compiled_model",
    "read_plan",
    "write_container",
]
