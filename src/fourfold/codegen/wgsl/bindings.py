"""Assigns storage bindings to the buffers behind a kernel's pointers.

A buffer is an array of 32-bit words, or of vectors of two or four words, whatever its element type.
All pointers into a buffer that the kernel writes share one binding, because a buffer cannot be
bound both for reading and for writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fourfold.codegen.expression import Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import Store
from fourfold.codegen.walk import expressions, statements
from fourfold.types import DType

MAX_BINDINGS = 8  # storage buffers per stage that every device supports
Key = Callable[[int, int, "Access"], tuple[int, int]]
_WORDS = {1: "u32", 2: "vec2<u32>", 4: "vec4<u32>"}


@dataclass
class Access:
    """Accesses through a pointer: the sizes of its loads and stores in bits."""

    loads: set[int] = field(default_factory=set)
    stores: set[int] = field(default_factory=set)


@dataclass
class Binding:
    """One storage binding.

    `pointer` is the first pointer that uses it, `words` the words per element. It is `atomic` if
    several work-items may write parts of one word.
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
        """The binding's entry in the first line of a module."""
        return f"{'w' if self.writable else 'r'}{self.pointer}"

    @property
    def declaration(self) -> str:
        mode = "read_write" if self.writable else "read"
        type_ = "atomic<u32>" if self.atomic else _WORDS[self.words]
        attributes = f"@group(0) @binding({self.number})"
        return f"{attributes} var<storage, {mode}> {self.name}: array<{type_}>;"


def element_bits(dtype: DType) -> int:
    return dtype.size * 8


def find_access(kernel: Kernel) -> dict[str, Access]:
    """Return the accesses through each pointer parameter."""
    accesses = {argument.pointer.name: Access() for argument in kernel.buffers}
    for item in expressions(kernel):
        if item.op == "load" and item.operands[0].name in accesses:
            pointer = item.operands[0]
            accesses[pointer.name].loads.add(_bits(pointer, item.width))
    for statement in statements(kernel.body):
        if isinstance(statement, Store) and statement.pointer.name in accesses:
            pointer = statement.pointer
            accesses[pointer.name].stores.add(_bits(pointer, statement.value.width))
    return accesses


def _bits(pointer: Pointer, width: int) -> int:
    return min(element_bits(pointer.dtype) * width, 128)


def find_bindings(kernel: Kernel, buffers: Sequence[int]) -> dict[str, Binding]:
    """Return the bindings of used pointers; `buffers` are equal for pointers into one buffer.

    Each pointer that is only read has its own binding, so that the text does not depend on which of
    them share a buffer. If that exceeds the limit, there is one binding per buffer.
    """
    access, bindings = find_access(kernel), dict[str, Binding]()
    for key in (_by_pointer, _by_width, _by_buffer):
        bindings = _assign(kernel, buffers, access, key)
        if len({binding.number for binding in bindings.values()}) <= MAX_BINDINGS:
            break
    return bindings


def _by_pointer(home: int, number: int, uses: Access) -> tuple[int, int]:
    return home, number


def _by_width(home: int, number: int, uses: Access) -> tuple[int, int]:
    return home, _read_words(uses)


def _by_buffer(home: int, number: int, uses: Access) -> tuple[int, int]:
    return home, 0


def _assign(
    kernel: Kernel, buffers: Sequence[int], access: dict[str, Access], key: Key
) -> dict[str, Binding]:
    """Assign bindings; pointers that are only read share one if they have the same key."""
    pointers = [argument.pointer for argument in kernel.buffers]
    homes = [*buffers] or [*range(len(pointers))]
    written = {home for home, one in zip(homes, pointers, strict=True) if access[one.name].stores}
    bindings: dict[str, Binding] = {}
    by_key: dict[tuple[int, int], Binding] = {}
    for number, (home, pointer) in enumerate(zip(homes, pointers, strict=True)):
        uses = access[pointer.name]
        if not uses.loads and not uses.stores:
            continue
        shared_key = (home, -1) if home in written else key(home, number, uses)
        if shared_key not in by_key:
            by_key[shared_key] = Binding(len(by_key) + 1, number, home in written)
        bindings[pointer.name] = by_key[shared_key]
    for binding in by_key.values():
        _set_element_width(
            binding, [access[name] for name, one in bindings.items() if one is binding]
        )
    return bindings


def _set_element_width(binding: Binding, accesses: Sequence[Access]) -> None:
    """Set the element width: that of the narrowest store, else of the widest load.

    Stores of less than a word need atomic operations.
    """
    stores = {bits for one in accesses for bits in one.stores}
    if stores:
        binding.atomic = min(stores) < 32
        binding.words = max(min(stores) // 32, 1)
    else:
        binding.words = max(map(_read_words, accesses))


def _read_words(uses: Access) -> int:
    return max(max(uses.loads) // 32, 1)


def ordered_bindings(bindings: dict[str, Binding]) -> Iterator[Binding]:
    """Iterate over the bindings once each, by number."""
    yield from sorted({one.number: one for one in bindings.values()}.values(), key=_number)


def _number(binding: Binding) -> int:
    return binding.number
