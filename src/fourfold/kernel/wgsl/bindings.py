"""Bindings: by which storage bindings a kernel reaches the buffers behind its pointers.

A buffer is an array of 32-bit words, or of vectors of two or four of them, whatever elements lie
there. All pointers into a buffer that the kernel writes share one binding, since none may be bound
both for reading and for writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fourfold.kernel.expression import Pointer
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import Store
from fourfold.kernel.walk import expressions, statements
from fourfold.types import DType

MOST_BINDINGS = 8  # storage buffers of a stage that every device has
Key = Callable[[int, int, "Access"], tuple[int, int]]
_WORDS = {1: "u32", 2: "vec2<u32>", 4: "vec4<u32>"}


@dataclass
class Access:
    """How a kernel reaches what is behind a pointer: the bits of each load and of each store."""

    loads: set[int] = field(default_factory=set)
    stores: set[int] = field(default_factory=set)


@dataclass
class Binding:
    """One storage binding: the first pointer that is reached by it, how many words its elements
    have, and whether several work-items may write parts of one word.
    """

    number: int
    pointer: int
    writable: bool
    words: int = 1
    atomic: bool = False

    @property
    def name(self) -> str:
        return f"_b{self.number}"

    @property
    def mark(self) -> str:
        """As the line that begins a module lists it."""
        return f"{'w' if self.writable else 'r'}{self.pointer}"

    @property
    def declaration(self) -> str:
        mode = "read_write" if self.writable else "read"
        type_ = "atomic<u32>" if self.atomic else _WORDS[self.words]
        place = f"@group(0) @binding({self.number})"
        return f"{place} var<storage, {mode}> {self.name}: array<{type_}>;"


def element_bits(dtype: DType) -> int:
    return dtype.size * 8


def find_access(kernel: Kernel) -> dict[str, Access]:
    """How each pointer that is a parameter is used."""
    found = {argument.pointer.name: Access() for argument in kernel.buffers}
    for item in expressions(kernel):
        if item.op == "load" and item.operands[0].name in found:
            pointer = item.operands[0]
            found[pointer.name].loads.add(_bits(pointer, item.width))
    for statement in statements(kernel.body):
        if isinstance(statement, Store) and statement.pointer.name in found:
            pointer = statement.pointer
            found[pointer.name].stores.add(_bits(pointer, statement.value.width))
    return found


def _bits(pointer: Pointer, width: int) -> int:
    return min(element_bits(pointer.dtype) * width, 128)


def find_bindings(kernel: Kernel, buffers: Sequence[int]) -> dict[str, Binding]:
    """The binding of each pointer that is used; `buffers` are equal for pointers into one buffer.

    What is only read has a binding for each pointer, so that the text does not depend on which of
    them lead into one buffer. Where that makes too many, there is one for each buffer.
    """
    access, found = find_access(kernel), dict[str, Binding]()
    for key in (_by_pointer, _by_width, _by_buffer):
        found = _assign(kernel, buffers, access, key)
        if len({binding.number for binding in found.values()}) <= MOST_BINDINGS:
            break
    return found


def _by_pointer(home: int, number: int, uses: Access) -> tuple[int, int]:
    return home, number


def _by_width(home: int, number: int, uses: Access) -> tuple[int, int]:
    return home, _read_words(uses)


def _by_buffer(home: int, number: int, uses: Access) -> tuple[int, int]:
    return home, 0


def _assign(
    kernel: Kernel, buffers: Sequence[int], access: dict[str, Access], key: Key
) -> dict[str, Binding]:
    """Bindings where pointers that are only read share one if they have the same key."""
    pointers = [argument.pointer for argument in kernel.buffers]
    homes = [*buffers] or [*range(len(pointers))]
    written = {home for home, one in zip(homes, pointers, strict=True) if access[one.name].stores}
    found: dict[str, Binding] = {}
    known: dict[tuple[int, int], Binding] = {}
    for number, (home, pointer) in enumerate(zip(homes, pointers, strict=True)):
        uses = access[pointer.name]
        if not uses.loads and not uses.stores:
            continue
        place = (home, -1) if home in written else key(home, number, uses)
        if place not in known:
            known[place] = Binding(len(known) + 1, number, home in written)
        found[pointer.name] = known[place]
    for binding in known.values():
        _settle(binding, [access[name] for name, one in found.items() if one is binding])
    return found


def _settle(binding: Binding, every: Sequence[Access]) -> None:
    """How wide elements are: as the narrowest store, since a store must not touch neighbours, or as
    the widest load. What is stored in less than a word is put there by atomic operations.
    """
    stores = {bits for one in every for bits in one.stores}
    if stores:
        binding.atomic = min(stores) < 32
        binding.words = max(min(stores) // 32, 1)
    else:
        binding.words = max(map(_read_words, every))


def _read_words(uses: Access) -> int:
    return max(max(uses.loads) // 32, 1)


def in_order(bindings: dict[str, Binding]) -> Iterator[Binding]:
    """Each binding once, by its number."""
    yield from sorted({one.number: one for one in bindings.values()}.values(), key=_number)


def _number(binding: Binding) -> int:
    return binding.number
