"""estimate: the memory and the arithmetic of a model, before anything is loaded or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from fourfold.backends.null import NULL_GPU
from fourfold.config import Config
from fourfold.device import PROBED
from fourfold.errors import DeviceError
from fourfold.options import AUTO, SessionOptions
from fourfold.plan import HOST_KINDS, Buffer
from fourfold.runtime.loading import load_compiled
from fourfold.runtime.opening import Model, open_request, path_or_bytes
from fourfold.runtime.request import Request
from fourfold.store.store import Store
from fourfold.support.display import count_text, html_table, shown, size_text
from fourfold.tools.example_shapes import example_note, report_with_examples
from fourfold.types import Shape

ANY_GPU = replace(NULL_GPU, probed=PROBED)  # a generic GPU, which cannot be probed
COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
STATES = ("variable", "state")


@dataclass(frozen=True)
class Estimate:
    """Memory and arithmetic of a session. Sizes are in bytes.

    Device memory holds `weights`, `arena` (values between kernels), `inputs`, `outputs` and
    `states` (variables that persist between runs, and counters of kernels). `host` is host memory:
    the weights of the plan (memory-mapped if they come from a file), the kernels' text, arrays that
    the device accesses or copies from, and the parts of a model that CPU engines run. `largest` is
    the largest single allocation on the device. `flops` is the approximate number of additions and
    multiplications of a run on the device; None if a file does not say. `example_shapes` has the
    shapes that the estimate is for, if the model leaves sizes open that the options did not set.
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
    cpu_parts: int  # parts that a CPU engine runs; its own memory is not known
    example_shapes: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Total memory on the device."""
        return self.weights + self.arena + self.inputs + self.outputs + self.states

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        shapes = {name: list(shape) for name, shape in self.example_shapes.items()}
        return {**asdict(self), "example_shapes": shapes, "total": self.total}

    @shown
    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(size) for _, size in rows)
        lines = (f"  {name:<16}{size:>{width}}" for name, size in rows)
        note = [example_note(self.example_shapes)] if self.example_shapes else []
        return "\n".join([*note, self._summary(), *lines])

    @shown
    def __repr__(self) -> str:
        return f"<Estimate: {self._summary()}, {size_text(self.total)} on the device>"

    def _repr_html_(self) -> str:
        note = f"; {example_note(self.example_shapes)}" if self.example_shapes else ""
        return html_table(f"Estimate: {self._summary()}{note}", ("memory", ">size"), self._rows())

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


def estimate(source: Model, device: object = None, **options: Any) -> Estimate:
    """Estimate the memory of a `Session` with the same options, and the arithmetic of a run.

    The model is compiled or loaded from the cache. No kernel is built, and nothing is run. Sizes
    that the model leaves open and `shapes=` does not set are those of an example; the estimate says
    which.

    Args:
        source: The model, as `Session` takes it.
        device: The device, as `Session` takes it. 'null' is a generic GPU, which is also the
            default if no device is found.
        **options: The other options of `Session`, by name.
    """
    stated = SessionOptions.of({"device": device, **options})
    result, shapes = report_with_examples(partial(_estimate, source), stated)
    return replace(result, example_shapes=shapes)


def estimate_request(source: Model, options: SessionOptions) -> tuple[Request, Store | None]:
    """Return a request that needs no device: a generic GPU stands in where none is found."""
    content = path_or_bytes(source)
    device = options.wanted_device(Config.from_environment())
    if device != ANY_GPU.name:
        try:
            request, store = open_request(content, options)
            return request._replace(plays=False), store
        except DeviceError:
            if options.device is not None or device != AUTO:
                raise
    elsewhere = replace(options, device="cpu", placement="auto", cache=None)
    request, _ = open_request(content, elsewhere)
    placement = options.placement_options(Config.from_environment())
    return request._replace(device=ANY_GPU, placement_options=placement, plays=False), None


def _estimate(source: Model, options: SessionOptions) -> Estimate:
    request, store = estimate_request(source, options)
    model = load_compiled(request, store).model
    on_cpu = [part for part in model.parts if part.plan is None]
    weights = [part.graph.constants for part in on_cpu if part.graph is not None]
    held = sum(array.nbytes for arrays in weights for array in arrays.values())
    held += sum(len(part.content) for part in on_cpu)
    on_device = [buffer for buffer in model.buffers if buffer.kind not in HOST_KINDS]
    sizes = {kind: _allocated(on_device, kind) for kind in ("arena", "input", "output")}
    # A GPU with memory of its own copies inputs and outputs through pinned host memory.
    staged = sizes["input"] + sizes["output"] if request.device.is_discrete else 0
    pinned = sum(_allocated(model.buffers, kind) for kind in HOST_KINDS)
    own = sum(plan.constants.nbytes + len(plan.program.text.encode()) for plan in model.plans)
    return Estimate(
        device=request.device.name,
        precision=model.precision,
        weights=_allocated(on_device, "constants"),
        arena=sizes["arena"],
        inputs=sizes["input"],
        outputs=sizes["output"],
        states=sum(_allocated(on_device, kind) for kind in STATES),
        host=own + staged + pinned + held,
        largest=max((buffer.allocated for buffer in on_device), default=0),
        flops=model.flops,
        launches=len(model.launches),
        cpu_parts=len(on_cpu),
    )


def _allocated(buffers: Sequence[Buffer], kind: str) -> int:
    return sum(buffer.allocated for buffer in buffers if buffer.kind == kind)


def _count(number: float | None) -> str:
    if number is None:
        return "unknown"
    unit = next((pair for pair in COUNTS if number >= pair[0]), None)
    return f"{number:.0f} FLOP" if unit is None else f"{number / unit[0]:.2f} {unit[1]}FLOP"
