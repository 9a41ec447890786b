"""Plans of hand-written kernels for the interpreter, with a buffer for each pointer name.

Given arrays are inputs, requested ones are outputs, and the rest is memory between kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fourfold.backends.interpreter.player import Player
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.tree.render import render
from fourfold.device import DeviceInfo
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Port, Program
from fourfold.types import DType, TensorType

Arrays = Mapping[str, np.ndarray]


def plan_of(
    kernels: Sequence[Kernel],
    given: Arrays,
    wanted: Mapping[str, str],
    between: Mapping[str, str] | None = None,
    offsets: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan of kernels that run one after the other. `wanted` and `between` have the
    types of outputs and of memory; `offsets` are start offsets of pointers in their buffers.
    """
    created = {name: TensorType.parse(text) for name, text in {**wanted, **(between or {})}.items()}
    types = {name: TensorType.of(array) for name, array in given.items()} | created
    kinds = {name: "output" if name in wanted else "arena" for name in created}
    names = list(types)
    buffers = [Buffer("arena", "arena", 0), Buffer("constants", "constants", 64)]
    buffers += [Buffer(name, kinds.get(name, "input"), types[name].bytes) for name in names]
    launches = []
    for number, kernel in enumerate(kernels):
        pointers = [argument.pointer.name for argument in kernel.buffers]
        uses = [BufferUse(2 + names.index(name), (offsets or {}).get(name, 0)) for name in pointers]
        arguments = (*uses, *kernel.sizes.values())
        entry = f"{kernel.title}_{number}"
        launches.append(Launch(entry, arguments, kernel.grid, kernel.local, kernel.title, ""))
    text = "".join(render(k, f"{k.title}_{n}") for n, k in enumerate(kernels))
    return Plan(
        name="by hand",
        program=Program(text, ""),
        buffers=tuple(buffers),
        launches=tuple(launches),
        inputs=tuple(Port(name, types[name], 2 + names.index(name)) for name in given),
        outputs=tuple(Port(name, types[name], 2 + names.index(name)) for name in wanted),
        constants=np.zeros(64, np.uint8),
        precision="fp32",
    )


def play(plan: Plan, given: Arrays, device: DeviceInfo = NULL_GPU) -> dict[str, np.ndarray]:
    """Return the interpreter's results of a plan."""
    player = Player(device, plan)
    player.poison()
    results = player.run(list(given.values()))
    player.close()
    return {port.name: result for port, result in zip(plan.outputs, results, strict=True)}


def kernel_of(
    title: str, counts: Sequence[int], local: tuple[int, ...] = ()
) -> tuple[Kernel, list]:
    """Return a kernel over a grid and this work-item's position; all work-items of a group stay
    active.
    """
    kernel = Kernel(title, literal=True)
    return kernel, kernel.ids(*counts, local=local, stay=True)


def floats(kernel: Kernel, title: str, writable: bool = False):
    """Add a pointer to floats."""
    return kernel.pointer(title, DType.F32, None, writable)
