"""Renders kernels as stages of one persistent launch: functions that a loop over a table calls.

A stage does not depend on how it was launched. Its work-groups are virtual: a real group of
work-items runs one or several of them side by side, each with its own part of local memory, round
after round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.c_style.renderer import Renderer
from fourfold.codegen.expression import Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage_table import HEAD, array_vectors
from fourfold.codegen.statement import AwaitHost, AwaitInputs, LocalArray

_AXES = "xyz"
_WARP = 32
_ANY = "stage_of_any_name"  # placeholder for the name until the text is known to be new


@dataclass(frozen=True)
class StageFunction:
    """One function of the persistent kernel: its text, and what determines its row of the table."""

    name: str
    kernel: Kernel
    constant: tuple[bool, ...]
    dialect: Dialect
    shares: bool = False  # groups share the work, with grid barriers between stages
    text: str = ""  # result of `render_stage`

    @property
    def named_text(self) -> str:
        """The text with the function's name instead of the placeholder."""
        return self.text.replace(_ANY, self.name, 1)

    @property
    def items(self) -> int:
        """Work-items of one virtual group."""
        return self.kernel.local_items

    @property
    def has_own_barrier(self) -> bool:
        """True if its work-items have a barrier separate from other virtual groups."""
        return self.local_bytes > 0 and self.items % _WARP == 0

    @property
    def awaits(self) -> bool:
        """True if its kernel states itself where it needs the results of the previous stage."""
        can_wait = self.shares and self.items % _WARP == 0
        return can_wait and any(
            isinstance(item, (AwaitHost, AwaitInputs)) for item in self.kernel.body
        )

    @property
    def local_bytes(self) -> int:
        """Local memory of one virtual group in bytes, a multiple of 16."""
        arrays = [item for item in self.kernel.body if isinstance(item, LocalArray)]
        return sum(array_vectors(array) * 16 for array in arrays)


def render_stage(stage: StageFunction) -> str:
    """Render a kernel as a function with a placeholder for its name."""
    return _StageRenderer(stage).text(_ANY)


class _StageRenderer(Renderer):
    """Renders stage functions; ids, local memory and pointers are parameters.

    Pointers into the arena are neither const nor restrict: another stage has just written there,
    and the compiler could otherwise read stale data through a non-coherent cache.
    """

    def __init__(self, stage: StageFunction) -> None:
        super().__init__(stage.kernel, stage.dialect)
        pairs = zip(stage.kernel.buffers, stage.constant, strict=True)
        self.constant = {argument.pointer.name for argument, is_constant in pairs if is_constant}
        self.stage = stage

    def text(self, entry: str) -> str:
        kernel, words = self.kernel, self.dialect.words
        restrict = f"{words['restrict']} "
        body = list(self._block(kernel.body, 1, {}))
        parameters = [
            f"{self._space(a.pointer)}*{restrict if a.pointer.name in self.constant else ''}"
            f"{a.pointer.name}"
            for a in kernel.buffers
        ]
        parameters += [f"int {size}" for size in kernel.sizes]
        parameters += ["int group_x", "int group_y", "int group_z", "int item"]
        if any(isinstance(item, LocalArray) for item in kernel.body):
            parameters.append(f"{words['local']}float4 *pool")
        if self.stage.has_own_barrier:
            parameters.append("int seat")
        if self.stage.awaits:
            parameters.append("waiting *others")
        head = f"{words['function']} void {entry}(\n    " + ",\n    ".join(parameters) + ")"
        arrays = (self._array(array) for array in kernel.arrays)
        tops = [*self._ids(), *arrays, *(f"    {line}" for line in self.casts.values())]
        return "\n".join([f"// {kernel.title}", head, "{", *tops, *body, "}", ""])

    def _ids(self) -> list[str]:
        lines, remaining = [], "item"
        for axis, size in enumerate(self.kernel.local):
            title = _AXES[axis]
            position = "0" if size == 1 else f"{remaining} % {size}"
            lines.append(f"    const int local_{title} = {position};")
            lines.append(f"    const int global_{title} = group_{title} * {size} + local_{title};")
            remaining = remaining if size == 1 else f"{remaining} / {size}"
        return lines

    def _is_constant(self, pointer: Pointer) -> bool:
        return pointer.name in self.constant

    def _id(self, kind: str, axis: int) -> str:
        return f"{kind.removesuffix('_id')}_{_AXES[axis]}"

    def _await_inputs(self, pad: str) -> Iterator[str]:
        if self.stage.awaits:
            yield f"{pad}await_others(others);"

    def _barrier(self) -> str:
        alone = self.stage.has_own_barrier
        return f"meet_beside(seat, {self.stage.items});" if alone else super()._barrier()

    def _local_array(self, array: LocalArray) -> str:
        return self._pooled(array)


def stage_operands(stage: StageFunction, base: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the arguments of a stage from its table row, as types and values.

    `base` returns the expression for the buffer of a number.
    """
    operands = []
    at, space = HEAD, stage.dialect.words["global"]
    for argument, is_constant in zip(stage.kernel.buffers, stage.constant, strict=True):
        storage = stage.dialect.storages[argument.pointer.dtype]
        if is_constant:
            type_ = f"{space}const {storage} *"
            operands.append((type_, f"({type_})constants + row[{at + 1}]"))
        else:
            type_ = f"{space}{storage} *"
            operands.append((type_, f"({type_}){base(f'row[{at}]')} + row[{at + 1}]"))
        at += 2
    return operands + [("int ", f"row[{at + n}]") for n in range(len(stage.kernel.sizes))]


def stage_call(
    stage: StageFunction, operands: Sequence[str], position: Sequence[str], item: str
) -> str:
    """Return the call of a stage; `position` is the virtual group's along each axis."""
    arguments = [*operands, *position, item]
    if stage.local_bytes:
        arguments.append(f"pool + item / {stage.items} * {stage.local_bytes // 16}")
    if stage.has_own_barrier:
        arguments.append(f"item / {stage.items}")
    if stage.awaits:
        arguments.append("&others")
    return f"{stage.name}({', '.join(arguments)});"
