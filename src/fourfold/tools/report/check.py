"""check: where a model would run on a device, why, and what could be changed. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from fourfold import backends
from fourfold.backends.cpu import CPU
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.partition import Costs
from fourfold.compiler.placement import Decision, PlacementProblem, decide, read_problem
from fourfold.device import DeviceInfo
from fourfold.graph.metadata import ModelMetadata, Signature
from fourfold.options import CompileOptions, PlacementOptions, SessionOptions
from fourfold.plan.placement import Placement
from fourfold.runtime.opening import (
    Model,
    find_store,
    model_reader,
    model_title,
    path_or_bytes,
)
from fourfold.runtime.request import Request
from fourfold.store.prepared import is_prepared
from fourfold.store.store import Store
from fourfold.support.display import html_table, shown, time_text
from fourfold.support.timings import Timings
from fourfold.tools.example_shapes import example_note, report_with_examples
from fourfold.tools.report.advice import Advice, Subject, advise
from fourfold.tools.report.estimate import ANY_GPU
from fourfold.tools.report.prepared_plan import PreparedPlan, find_prepared_plan
from fourfold.types import Shape


@dataclass(frozen=True)
class CheckReport:
    """The placement of a model on a device, and advice on the model.

    A report on a prepared file has `prepared`, the plan that the device would play, and neither
    advice nor metadata. `example_shapes` has the shapes that the report is for, if the model leaves
    sizes open that the options did not set.
    """

    model: str  # path, or a name for a model in memory
    title: str
    device: str
    placement: Placement
    self_test: str | None = None  # result of the device's self-test; None for a generic GPU
    advice: tuple[Advice, ...] = ()
    metadata: ModelMetadata = field(default_factory=ModelMetadata)
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    prepared: PreparedPlan | None = None
    example_shapes: Mapping[str, Shape] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        head = {"model": self.model, "device": self.device, "self_test": self.self_test}
        if self.prepared is not None:
            return {**head, "prepared": self.prepared.to_json()}
        return {
            **head,
            "example_shapes": {name: list(one) for name, one in self.example_shapes.items()},
            "placement": self.placement.to_json(),
            "advice": [asdict(item) for item in self.advice],
            "signatures": {name: asdict(one) for name, one in self.signatures.items()},
            "metadata": self.metadata.to_json(),
        }

    @shown
    def __str__(self) -> str:
        return "\n".join(self._lines())

    @shown
    def __repr__(self) -> str:
        return f"<CheckReport: {self.title}: {self.placement.summary}>"

    def _repr_html_(self) -> str:
        rows = [(time_text(item.seconds), item.kind, str(item)) for item in self.advice]
        advice = html_table("Advice", (">could save", "kind", "advice"), rows) if rows else ""
        note = f"; {example_note(self.example_shapes)}" if self.example_shapes else ""
        title = html_table(f"Check: {self.title} on {self.device}{note}", (), ())
        return f"{title}{self.placement._repr_html_()}{advice}"

    def _lines(self) -> Iterator[str]:
        if self.example_shapes:
            yield example_note(self.example_shapes)
        placement, *details = str(self.placement).split("\n")
        yield f"{self.title}: {placement}"
        yield from details
        if self.prepared is not None:
            yield f"  {self.prepared.summary}"
        for item in self.advice:
            yield f"  could save {time_text(item.seconds)}: {item}"
        if self.self_test is not None:
            yield f"self-test of {self.device}: {self.self_test}"


def check(source: Model, device: object = None, **options: Any) -> CheckReport:
    """Report where a `Session` with the same options would run the model, with advice.

    Sizes that the model leaves open and `shapes=` does not set are those of an example; the report
    says which.

    Args:
        source: The model, as `Session` takes it. For a prepared file, the report says which plan
            the device would play.
        device: The device, as `Session` takes it. 'null' is a generic GPU that need not exist.
        **options: The other options of `Session`, by name.
    """
    stated = SessionOptions.of({"device": device, **options})
    report, shapes = report_with_examples(partial(_check, source), stated)
    return replace(report, example_shapes=shapes)


def _check(source: Model, stated: SessionOptions) -> CheckReport:
    config = stated.settings()
    content, placement = path_or_bytes(source), stated.placement_options(config)
    store = find_store(stated.cache, stated.serialization_dir, config)
    info = _find_device(stated.wanted_device(config), placement)
    self_test = None
    if info not in (ANY_GPU, CPU):
        self_test = backends.describe_verdict(backends.with_run_facts(info, store))
    request = Request(
        model=content,
        device=info,
        config=config,
        compile_options=stated.compile_options(config),
        placement_options=placement,
        timings=Timings(),
        name=stated.model,
        make_readable=model_reader(content, store, config),
    )
    if is_prepared(content):
        return _check_prepared(request, None if info is ANY_GPU else store, self_test)
    readable = request.readable
    return check_model(
        readable.content,
        model_title(content, stated.model),
        NULL_GPU if info is ANY_GPU else info,
        request.compile_options,
        placement,
        origin=readable.origin,
        path=content if isinstance(content, str) else "",
        self_test=self_test,
    )


def _find_device(wanted: object, placement: PlacementOptions) -> DeviceInfo:
    if wanted == NULL_GPU.name:
        return ANY_GPU
    return CPU if placement.placement == "cpu" else backends.find_device(wanted)


def _check_prepared(request: Request, store: Store | None, self_test: str | None) -> CheckReport:
    plan = find_prepared_plan(request, store)
    title = model_title(request.model, request.name)
    return CheckReport(
        model=request.model if isinstance(request.model, str) else title,
        title=title,
        device=str(request.device),
        placement=plan.placement,
        self_test=self_test,
        prepared=plan,
    )


def check_model(
    source: str | bytes,
    title: str,
    device: DeviceInfo,
    options: CompileOptions,
    placement: PlacementOptions | None = None,
    *,
    origin: str = "",
    path: str = "",
    self_test: str | None = None,
) -> CheckReport:
    """Place a model on a device without running it, and report where it would run, with advice.

    Args:
        source: The model in a format that can be read.
        title: Name of the model in the report.
        device: The device.
        options: What to compile.
        placement: Where the model may run.
        origin: Framework and converter of a converted model.
        path: Path of the model, if it has one.
        self_test: Result of the device's self-test.
    """
    problem = read_problem(source, device, options, placement, title=title, origin=origin)
    decision = decide(problem, {})
    return CheckReport(
        model=path or title,
        title=title,
        device=str(device),
        placement=decision.placement,
        self_test=self_test,
        advice=tuple(advise(_subject(decision))),
        metadata=problem.model.metadata,
        signatures=problem.model.signatures,
    )


def _subject(decision: Decision) -> Subject:
    problem, parts = decision.problem, decision.lowered.values()
    threads = problem.placement_options.thread_count
    return Subject(
        graphs=tuple(part.lowering.graph for part in parts),
        plans=tuple(part.plan for part in parts),
        placement=decision.placement,
        costs=Costs.of(problem.graph, problem.device, threads, problem.model.cpu_engine),
        open_inputs=open_inputs(problem),
    )


def open_inputs(problem: PlacementProblem) -> Mapping[str, tuple[int, ...]]:
    """Return the inputs whose sizes neither the file nor the caller fixed."""
    sizes_by_name = zip(problem.graph.arguments, problem.model.open_sizes, strict=False)
    shapes = problem.compile_options.shapes
    return {name: sizes for name, sizes in sizes_by_name if sizes and name not in shapes}
