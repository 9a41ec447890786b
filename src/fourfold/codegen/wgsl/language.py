"""WGSL as a kernel language: each kernel is rendered as a module, one statement per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language, Persistent, Prelude
from fourfold.codegen.stage import folded_groups, grid_groups
from fourfold.codegen.statement import (
    Assign,
    AwaitInputs,
    Barrier,
    Branch,
    Declare,
    Leave,
    LocalArray,
    Loop,
    Prefetch,
    Statement,
    Store,
)
from fourfold.codegen.walk import Node, statements
from fourfold.codegen.wgsl.bindings import find_bindings, ordered_bindings
from fourfold.codegen.wgsl.expression import ExpressionWriter, Known
from fourfold.codegen.wgsl.memory import MemoryWriter
from fourfold.codegen.wgsl.names import identifier, type_name

# operations whose results may differ between work-items
_OWN = ("load", "global_id", "local_id", "guarded")


class Uniformity:
    """Names that are known to be uniform in a work-group, as far as a compiler can tell.

    WGSL allows a barrier only where control flow depends on uniform values alone. A kernel with a
    barrier in a loop whose end is computed alike by all work-items has to prove it.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._names = {*kernel.sizes}

    def declare(self, statement: Declare) -> None:
        """Record a constant that is computed from uniform values."""
        if statement.constant and self._is_uniform(statement.value):
            self._names.add(str(statement.target.operands[0]))

    def enter(self, statement: Loop | Branch) -> bool:
        """Return whether a compiler accepts the barriers inside, if there are any."""
        if isinstance(statement, Branch):
            bodies = [*statement.body, *statement.otherwise]
            return not _waits(bodies) or self._is_uniform(statement.condition)
        limits = (statement.start, statement.stop, statement.step)
        uniform = all(map(self._is_uniform, limits))
        if uniform:
            self._names.add(str(statement.variable.operands[0]))
        return uniform or not _waits(statement.body)

    def _is_uniform(self, item: Expression) -> bool:
        if item.op == "name":
            return item.operands[0] in self._names
        parts = [part for part in item.operands if isinstance(part, Expression)]
        return item.op not in _OWN and all(map(self._is_uniform, parts))


def _waits(body: list[Statement]) -> bool:
    return any(isinstance(one, Barrier) for one in statements(body))


MARK = "//# "  # begins a module and occurs nowhere else
_PLAIN = ("const", "name", "global_id", "local_id")
_LEAVES = ("splat", "lane", "part")
# Numbers without a literal, by their bits.
SPECIAL_NUMBERS = {"INFINITY": "0x7f800000u", "NAN": "0x7fc00000u"}
MAX_GROUPS = 65535  # along one axis of a grid


def render(kernel: Kernel, entry: str, buffers: Sequence[int] = ()) -> str:
    """Return the module of one entry point; `buffers` are equal for pointers into one buffer."""
    return Renderer(kernel, buffers).text(entry)


class Renderer:
    """Renders one kernel, statement by statement."""

    def __init__(self, kernel: Kernel, buffers: Sequence[int]) -> None:
        self.kernel = kernel
        self.bindings = find_bindings(kernel, buffers)
        self.memory = MemoryWriter(self.bindings)
        self.expressions = ExpressionWriter(kernel, self.memory)
        self.uniformity = Uniformity(kernel)
        # types of the variables with which one work-item informs its group
        self.meeting: dict[str, str] = {}
        self.count = 0

    def text(self, entry: str) -> str:
        body = [*self._block(self.kernel.body, 1, {})]
        marks = " ".join(one.mark for one in ordered_bindings(self.bindings))
        functions = [*self.memory.functions.values(), *self.expressions.functions.values()]
        special = [name for name in SPECIAL_NUMBERS if any(name in line for line in body)]
        bits = [name for name in SPECIAL_NUMBERS if any(name in text for text in body + functions)]
        lines = [
            f"{MARK}{entry} {marks}".rstrip(),
            *(["enable f16;"] if self.expressions.halves else []),
            *self._parameters(),
            *(one.declaration for one in ordered_bindings(self.bindings)),
            *self._local_arrays(),
            *(f"var<workgroup> {name}: {type_};" for name, type_ in self.meeting.items()),
            # Compilers would evaluate a constant and reject it.
            *(f"var<private> {name}_BITS = {SPECIAL_NUMBERS[name]};" for name in bits),
            *functions,
            *self._head(entry),
            *(f"  let {name} = bitcast<f32>({name}_BITS);" for name in special),
            *(f"  {line}" for line in self.memory.offsets.values()),
            *body,
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _parameters(self) -> Iterator[str]:
        """Declare offsets and sizes, one word each, in the order of the launch's arguments."""
        fields = [f"{identifier(item.pointer.name)}_at" for item in self.kernel.buffers]
        fields += [identifier(size) for size in self.kernel.sizes]
        yield f"struct Sizes {{ {', '.join(f'{field}: i32' for field in fields)} }}"
        yield "@group(0) @binding(0) var<uniform> sizes: Sizes;"

    def _local_arrays(self) -> Iterator[str]:
        for statement in statements(self.kernel.body):
            if isinstance(statement, LocalArray):
                type_ = type_name(statement.kind, statement.width)
                name = identifier(statement.pointer.name)
                yield f"var<workgroup> {name}: array<{type_}, {statement.size}>;"

    def _head(self, entry: str) -> Iterator[str]:
        size = (*self.kernel.local, 1, 1)[:3]
        row = folded_groups(self.kernel.grid, self.kernel.local, MAX_GROUPS)
        position = "workgroup_id) wid" if row else "global_invocation_id) gid"
        ids = f"@builtin({position}: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>"
        yield f"@compute @workgroup_size({', '.join(map(str, size))})"
        yield f"fn {entry}({ids}) {{"
        if row is not None:
            groups = (*grid_groups(self.kernel.grid, self.kernel.local), 1)
            yield f"  let group = wid.y * {row[0]}u + wid.x;"
            yield f"  if (group >= {prod(groups)}u) {{ return; }}"
            along = f"group % {groups[0]}u, group / {groups[0]}u % {groups[1]}u"
            yield f"  let unfolded = vec3<u32>({along}, group / {groups[0] * groups[1]}u);"
            yield f"  let gid = unfolded * vec3<u32>({', '.join(f'{n}u' for n in size)}) + lid;"

    def _block(self, body: list[Statement], depth: int, known: Known) -> Iterator[str]:
        for statement in body:
            # Hoisted names are valid in this statement only, because variables change.
            yield from self._statement(statement, depth, dict(known))

    def _statement(self, statement: Statement, depth: int, known: Known) -> Iterator[str]:
        pad, of = "  " * depth, self.expressions.of
        match statement:
            case Declare(target, value, constant):
                yield from self._hoist(pad, known, value)
                self.uniformity.declare(statement)
                word = "let" if constant else "var"
                yield f"{pad}{word} {identifier(target.operands[0])} = {of(value, known)};"
            case Assign(target, value, op):
                yield from self._hoist(pad, known, value)
                yield f"{pad}{identifier(target.operands[0])} {op}= {of(value, known)};"
            case Store(pointer, index, value):
                yield from self._hoist(pad, known, index, value)
                position, text = of(index, known, 1), of(value, known)
                yield f"{pad}{self.memory.store(pointer, position, text, value)}"
            case Loop():
                yield from self._loop(statement, depth, known)
            case Branch():
                yield from self._branch(statement, depth, known)
            case Barrier():
                yield f"{pad}workgroupBarrier();"
            case Leave():
                yield f"{pad}return;"
            case LocalArray() | AwaitInputs() | Prefetch():
                pass  # declared outside; nothing to wait for in a launch; a hint
            case _:
                raise NotImplementedError(f"WGSL does not support {type(statement).__name__}")

    def _loop(self, loop: Loop, depth: int, known: Known) -> Iterator[str]:
        pad, of, counter = "  " * depth, self.expressions.of, identifier(loop.variable.operands[0])
        yield from self._hoist(pad, known, loop.start, loop.stop, loop.step)
        by = "++" if loop.step.number == 1 else f" += {of(loop.step, known)}"
        start, stop = of(loop.start, known), of(loop.stop, known)
        if not self.uniformity.enter(loop):
            stop = self._title()
            yield from self._uniform_value(pad, stop, "i32", of(loop.stop, known))
        yield f"{pad}for (var {counter} = {start}; {counter} < {stop}; {counter}{by}) {{"
        yield from self._block(loop.body, depth + 1, {})
        yield f"{pad}}}"

    def _branch(self, branch: Branch, depth: int, known: Known) -> Iterator[str]:
        pad = "  " * depth
        yield from self._hoist(pad, known, branch.condition)
        condition = self.expressions.of(branch.condition, known)
        if not self.uniformity.enter(branch):
            title = self._title()
            yield from self._uniform_value(pad, title, "bool", condition)
            condition = title
        yield f"{pad}if ({condition}) {{"
        yield from self._block(branch.body, depth + 1, {})
        if branch.otherwise:
            yield f"{pad}}} else {{"
            yield from self._block(branch.otherwise, depth + 1, {})
        yield f"{pad}}}"

    def _uniform_value(self, pad: str, title: str, type_: str, text: str) -> Iterator[str]:
        """Declare a name for a value that is equal in a group, in a form that proves it."""
        variable = f"_told{len(self.meeting)}"
        self.meeting[variable] = type_
        yield f"{pad}if (all(lid == vec3<u32>())) {{ {variable} = {text}; }}"
        yield f"{pad}let {title} = workgroupUniformLoad(&{variable});"

    def _hoist(self, pad: str, known: Known, *roots: Expression) -> Iterator[str]:
        """Declare names for subexpressions that a statement uses more than once.

        Guarded values become variables, because WGSL has no expression that is evaluated
        conditionally.
        """
        counts: dict[int, int] = {}
        order: list[Expression] = []

        def visit(item: object) -> None:
            if not isinstance(item, Expression) or item.op in _PLAIN:
                return
            key = id(item)
            if key in counts:
                counts[key] += 1
            elif key not in known:
                counts[key] = 1
                # An expression inside a guard must not be moved out of it.
                for operand in item.operands[:1] if item.op == "guarded" else item.operands:
                    visit(operand)
                order.append(item)

        for root in roots:
            visit(root)
        for item in order:
            if item.op == "guarded":
                yield from self._guarded(pad, item, known)
            elif counts[id(item)] > 1 and item.op not in _LEAVES:
                title = self._title()
                yield f"{pad}let {title} = {self.expressions.of(item, known)};"
                known[id(item)] = title

    def _guarded(self, pad: str, item: Expression, known: Known) -> Iterator[str]:
        condition, value, otherwise = item.operands
        yield from self._hoist(pad, known, otherwise)
        title = self._title()
        yield f"{pad}var {title} = {self.expressions.of(otherwise, known)};"
        yield f"{pad}if ({self.expressions.of(condition, known)}) {{"
        inside = dict(known)
        yield from self._hoist(pad + "  ", inside, value)
        yield f"{pad}  {title} = {self.expressions.of(value, inside)};"
        yield f"{pad}}}"
        known[id(item)] = title

    def _title(self) -> str:
        self.count += 1
        return f"_s{self.count}"


_CAPABILITIES = Capabilities(
    language="WGSL",
    kinds=frozenset(("float", "half", "int", "bool")),
    widths=frozenset((1, 4)),
    shifted_pointers=False,
    private_arrays=False,
    separate_writes=True,
    max_groups=MAX_GROUPS,
    few_kernels=True,
    counted_rounds=True,
)


class WgslLanguage:
    """WGSL as all browsers accept it: the modules of all entry points, one after the other."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return None

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, buffers)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        return Prelude("", "", "1.0")


LANGUAGE: Language = WgslLanguage()
