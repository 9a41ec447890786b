"""estimate: what a model will take of memory and arithmetic, before anything is loaded or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fourfold.config import Config, PlacementName, Precision, count
from fourfold.device import PROBED, DeviceInfo
from fourfold.display import count_text, html_table, size_text
from fourfold.errors import DeviceError
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.pixels import PixelsOption
from fourfold.plan import HOST_KINDS, Buffer, Plan
from fourfold.players.null import NULL_GPU
from fourfold.processing.option import PostprocessOption
from fourfold.runtime.hybrid_loading import find_hybrid
from fourfold.runtime.instance import load_whole
from fourfold.runtime.opening import (
    AUTO,
    Cache,
    Model,
    check_precision,
    find_store,
    model_reader,
    path_or_bytes,
    session_device,
)
from fourfold.runtime.request import Request
from fourfold.store.store import Store
from fourfold.targets import GPU
from fourfold.timings import Timings
from fourfold.types import Shape

ANY_GPU = replace(NULL_GPU, probed=PROBED)  # of no particular make: nothing of it is tried
COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
STATES = ("variable", "state")


@dataclass(frozen=True)
class Estimate:
    """What a session of a model takes; sizes are bytes.

    On the device lie `weights`, `arena` (values between kernels), `inputs`, `outputs` and `states`
    (what is kept from run to run, and what kernels count by). `host` is host memory: the weights
    as the plan holds them, which are mapped where they come from a file, the kernels' text, arrays
    that the device reaches or copies from, and the parts of a model for CPU engines. `largest` is
    the largest single allocation on the device. `flops` are about the additions and multiplications
    of a run on the device; None where a file does not say.
    """

    device: str
    precision: str
    weights: int
    arena: int
    inputs: int
    outputs: int
    states: int
    host: int
    largest: int
    flops: float | None
    launches: int
    cpu_parts: int  # parts of the model that run in a CPU engine; its own memory is not known

    @property
    def total(self) -> int:
        """All that is set aside on the device."""
        return self.weights + self.arena + self.inputs + self.outputs + self.states

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**asdict(self), "total": self.total}

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(size) for _, size in rows)
        lines = (f"  {name:<16}{size:>{width}}" for name, size in rows)
        return "\n".join([self._summary(), *lines])

    def __repr__(self) -> str:
        return f"<Estimate: {self._summary()}, {size_text(self.total)} on the device>"

    def _repr_html_(self) -> str:
        return html_table(f"Estimate: {self._summary()}", ("memory", ">size"), self._rows())

    def _summary(self) -> str:
        head = f"{self.device}, {self.precision}, {count_text(self.launches, 'launch', 'launches')}"
        parts = f", {count_text(self.cpu_parts, 'part')} on the CPU" if self.cpu_parts else ""
        return head + parts

    def _rows(self) -> list[tuple[str, str]]:
        sizes = {name: getattr(self, name) for name in _ON_DEVICE}
        sizes |= {"on the device": self.total, "largest at once": self.largest}
        sizes["on the host"] = self.host
        rows = [(name, size_text(size)) for name, size in sizes.items()]
        return [*rows, ("arithmetic", _count(self.flops))]


_ON_DEVICE = ("weights", "arena", "inputs", "outputs", "states")


def estimate(  # noqa: PLR0913 - each is an option that callers know by name
    source: Model,
    device: str | int | DeviceInfo | None = None,
    precision: Precision | None = None,
    shapes: Mapping[str, Shape] | None = None,
    *,
    cache: Cache = AUTO,
    model: str | None = None,
    placement: PlacementName | None = None,
    signature: str | None = None,
    pixels: PixelsOption | None = None,
    postprocess: PostprocessOption | None = None,
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> Estimate:
    """What `Session` with the same arguments will take of memory, and how much arithmetic a run is.

    The plan is made, or found where it is kept; nothing of the model is run, and no kernel of it is
    built. Without a device it is the one that a session would choose, or where there is none a GPU
    of no particular make, which `device='null'` asks for.
    """
    config = Config.from_environment()
    stated = (precision, shapes, pixels, postprocess, signature, memory_limit)
    options = CompileOptions.from_config(config, *stated)
    wanted = config.device if device is None else device
    placing = PlacementOptions(
        placement="cpu" if wanted == "cpu" else placement or "auto",
        threads=config.threads if threads is None else count("threads", threads),
    )
    info = _find_device(wanted, placing, any_will_do=device is None)
    store = None if info is ANY_GPU else find_store(cache, None, config)
    check_precision(options.precision, info, store)
    content = path_or_bytes(source)
    request = Request(content, info, config, options, placing, Timings(), model)
    reader = model_reader(content, store, config)
    request = request._replace(any_precision=precision is None, make_readable=reader, plays=False)
    return _estimate(request, store)


def _find_device(
    wanted: str | int | DeviceInfo, options: PlacementOptions, any_will_do: bool
) -> DeviceInfo:
    if wanted == ANY_GPU.name:
        return ANY_GPU
    try:
        return session_device(wanted, options)
    except DeviceError:
        if any_will_do and wanted == AUTO:
            return ANY_GPU
        raise


def _estimate(request: Request, store: Store | None) -> Estimate:
    whole = load_whole(request, store)
    if whole is not None:
        return _add_up(request.device, [whole.compiled.plan], whole.compiled.plan)
    hybrid = find_hybrid(request, store).hybrid
    found = _add_up(request.device, hybrid.plans, hybrid.compiled.plan)
    on_cpu = [part for part in hybrid.parts if part.target != GPU]
    weights = [part.graph.constants for part in on_cpu if part.graph is not None]
    held = sum(array.nbytes for arrays in weights for array in arrays.values())
    held += sum(len(part.content) for part in on_cpu)
    return replace(found, host=found.host + held, cpu_parts=len(on_cpu))


def _add_up(device: DeviceInfo, plans: Sequence[Plan], whole: Plan) -> Estimate:
    """What players of these plans set aside; `whole` describes all of them as one."""
    buffers = [buffer for plan in plans for buffer in plan.buffers]
    on_device = [buffer for buffer in buffers if buffer.kind not in HOST_KINDS]
    sizes = {kind: _allocated(on_device, kind) for kind in ("arena", "input", "output")}
    # Of a GPU with memory of its own, what goes in and out is copied through pinned host memory.
    staged = sizes["input"] + sizes["output"] if device.is_discrete else 0
    pinned = sum(_allocated(buffers, kind) for kind in HOST_KINDS)
    own = sum(plan.constants.nbytes + len(plan.program.text.encode()) for plan in plans)
    return Estimate(
        device=device.name,
        precision=whole.precision,
        weights=_allocated(on_device, "constants"),
        arena=sizes["arena"],
        inputs=sizes["input"],
        outputs=sizes["output"],
        states=sum(_allocated(on_device, kind) for kind in STATES),
        host=own + staged + pinned,
        largest=max((buffer.allocated for buffer in on_device), default=0),
        flops=whole.flops,
        launches=len(whole.launches),
        cpu_parts=0,
    )


def _allocated(buffers: Sequence[Buffer], kind: str) -> int:
    return sum(buffer.allocated for buffer in buffers if buffer.kind == kind)


def _count(number: float | None) -> str:
    if number is None:
        return "not known"
    found = next((pair for pair in COUNTS if number >= pair[0]), None)
    return f"{number:.0f} FLOP" if found is None else f"{number / found[0]:.2f} {found[1]}FLOP"
