"""Optimizer: reads, cuts, simplifies, writes and places one model, and compares the result."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from fourfold.backends.cpu.reference import NumpyPart
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.convert import make_readable_with_config
from fourfold.compiler.placement import decide, read_problem
from fourfold.compiler.rewrite import PIPELINE, WRITABLE
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, Refusal, UnsupportedError, nearest
from fourfold.export.optimize.answers import Answers, Arrays, Run, compare_answers
from fourfold.export.optimize.options import CPU, OptimizeOptions, QuantizationRequest
from fourfold.export.optimize.output_file import PREPARED, writable_formats
from fourfold.export.optimize.passes import PassResult, fuse, simplify
from fourfold.export.optimize.report import OptimizedModel
from fourfold.export.quantize.quantizer import Quantizer, simplify_model
from fourfold.export.quantize.report import QuantizeReport
from fourfold.export.quantize.running import ProgressCounter
from fourfold.export.quantize.samples import (
    MIN_SAMPLES,
    Samples,
    SamplesOption,
    read_samples,
)
from fourfold.formats import Format, Model, ReadOptions, find_format, model_files, read_model
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph, Node
from fourfold.graph.metadata import ModelMetadata, TensorMetadata
from fourfold.ops.foreign import Foreign
from fourfold.options import CompileOptions
from fourfold.plan.placement import Placement
from fourfold.runtime.random_inputs import random_inputs
from fourfold.session import Session
from fourfold.tools.report.rival import find_rival
from fourfold.vision.describe import describe_model
from fourfold.vision.preprocessing import PictureInput

Source = str | bytes
VerifyOption = int | SamplesOption  # the seed of random inputs, or samples
UNNAMED = "model"


@dataclass(frozen=True)
class WrittenGraph:
    """A graph in the form of a file."""

    form: Format
    content: bytes
    quantization: QuantizeReport | None = None


@dataclass(frozen=True)
class Optimizer:
    """Work on one model. Expensive results are computed once."""

    source: Source
    options: OptimizeOptions
    compile_options: CompileOptions
    device: DeviceInfo
    steps: ProgressCounter

    @property
    def name(self) -> str:
        return UNNAMED if isinstance(self.source, bytes) else Path(self.source).stem

    @property
    def title(self) -> str:
        return "the model" if isinstance(self.source, bytes) else Path(self.source).name

    @cached_property
    def readable(self) -> Source:
        """The model in a readable format: the source itself, or its conversion."""
        return make_readable_with_config(Config.from_environment(), self.source).content

    @cached_property
    def format(self) -> Format:
        return find_format(self.readable)

    @cached_property
    def size(self) -> int:
        """Size of all files of the model, in bytes."""
        if isinstance(self.source, bytes):
            return len(self.source)
        return sum(os.path.getsize(path) for path in model_files(self.source))

    @cached_property
    def model(self) -> Model:
        """The model as read from the file and cut as requested."""
        options = ReadOptions(shapes=self.options.shapes, keep_unsupported=True)
        read = read_model(self.readable, options)
        return cut_model(read, self.options.inputs, self.options.outputs)

    @cached_property
    def simplified(self) -> tuple[Model, tuple[PassResult, ...]]:
        """The model to write, and what each pass changed."""
        self._refuse_foreign()
        self.steps.expect(len(WRITABLE))
        graph, results = simplify(self.model.main, self.options.fold_batch, self.steps.done)
        return replace(self.model, main=graph), results

    def _refuse_foreign(self) -> None:
        foreign = [
            Refusal(node.name, node.attributes.title, node.attributes.reason)
            for node in self.model.main.nodes
            if isinstance(node.attributes, Foreign)
        ]
        if foreign:
            what = f"{self.title} has operators that cannot be written"
            fix = "cut them off with inputs= and outputs=, or prepare the model as it is"
            raise UnsupportedError(what, foreign, fix)

    def write(self, form: Format) -> WrittenGraph:
        """Return the model as a file of this format."""
        model, request = self.simplified[0], self.options.quantization
        if request is not None:
            quantized = self._quantize(simplify_model(model), form, request)
            return WrittenGraph(form, quantized.content, quantized)
        writable = WritableModel(
            model.main,
            model.input_names,
            model.output_names,
            description=model.description,
            metadata=model.metadata,
        )
        return WrittenGraph(form, form.write(writable))

    def _quantize(self, model: Model, form: Format, request: QuantizationRequest) -> QuantizeReport:
        passed = request.samples
        samples = None if passed is None else self._read_samples(passed, model)
        device = None if self.device is NULL_GPU else self.device
        began = time.perf_counter()
        work = Quantizer(model, request.options, form, samples, samples, device, self.steps)
        return replace(work.run(), seconds=time.perf_counter() - began)

    def _read_samples(
        self, passed: SamplesOption, model: Model, least: int = MIN_SAMPLES
    ) -> Samples:
        title = "" if isinstance(self.source, bytes) else self.title
        described = describe_model(self.model, title)
        return read_samples(passed, model, self.options.pixels, least, described)

    def write_any_format(self) -> WrittenGraph:
        """Return the model in its own format, or in the first other format that can express it."""
        first: UnsupportedError | None = None
        for form in sorted(writable_formats(), key=lambda form: form.name != self.format.name):
            try:
                return self.write(form)
            except UnsupportedError as error:
                first = first or error
        assert first is not None, "at least one format has a writer"
        raise first

    def place(self, runs: Source) -> Placement:
        """Return where operators would run. Raises UnsupportedError if a target is not allowed."""
        options = self.options.placement
        problem = read_problem(runs, self.device, self.compile_options, options, title=self.title)
        placement = decide(problem, {}).placement
        if CPU not in self.options.targets and not placement.whole:
            rows = [Refusal(row.name, row.op, row.reason) for row in placement.fallbacks]
            what = f"{self.title} does not run wholly on {self.device.name}"
            raise UnsupportedError(what, rows, "allow the target cpu as well, or cut these off")
        return placement

    def report(self, written: WrittenGraph | None, prepared: bool) -> OptimizedModel:
        """Return the results for one model; without a written graph, the source itself was used."""
        results = () if written is None else self.simplified[1]
        graph = self.model.main if written is None else self.simplified[0].main
        fused: tuple[PassResult, ...] = ()
        if prepared and not any(isinstance(node.attributes, Foreign) for node in graph.nodes):
            self.steps.expect(len(PIPELINE))
            fused = fuse(graph, self.steps.done)
        placement = self.place(self.readable if written is None else written.content)
        before = self._operators()
        return OptimizedModel(
            name=self.name,
            format=self.format.name,
            written_as="" if written is None else written.form.name,
            bytes_before=self.size,
            operators_before=before,
            operators_after=before if written is None else len(placement.rows),
            passes=results,
            fused=fused,
            placement=placement,
            quantization=None if written is None else written.quantization,
        )

    def _operators(self) -> int:
        """Return the number of operators in the file, or of nodes if the format has no
        operators.
        """
        source = self.model.source_graph
        return len(self.model.main.nodes) if source is None else len(source.titles)

    def compare(self, output: Path, verify: VerifyOption) -> Answers:
        """Compare the outputs of the written file with those of the original model."""
        device = CPU if self.device is NULL_GPU else self.device
        chosen = self.name if output.suffix.lower() == PREPARED else None
        with Session(output, device, model=chosen, cache=None) as session:
            samples, picture = self._samples(session, verify)
            self.steps.expect(len(samples))
            title, before = self._original()

            def after(arrays: Arrays) -> Sequence[np.ndarray]:
                session.reset()
                results = list(session.run(arrays).values())
                self.steps.done("comparing")
                return results

            names = [info.name for info in session.outputs]
            precision = None if self.options.quantization else session.precision
            rows = compare_answers(before, after, samples, names, precision)
        return Answers(title, len(samples), rows, picture)

    def _samples(
        self, session: Session, verify: VerifyOption
    ) -> tuple[Sequence[Arrays], PictureInput | None]:
        """Return the inputs for both models, by input name, and how pictures were converted."""
        if isinstance(verify, int):  # True is seed 1
            return [random_inputs(session.inputs, int(verify))], None
        samples = self._read_samples(verify, self.model, least=1)
        names = dict(zip(self.model.main.arguments, self.model.input_names, strict=True))
        arrays = [{names[value]: array for value, array in one.items()} for one in samples]
        return arrays, samples.picture

    def _original(self) -> tuple[str, Run]:
        """Return the runtime of the original model: its format's own, or NumPy if it was cut."""
        if self.options.inputs or self.options.outputs:
            graph, names = self.model.main, self.model.input_names
            return "NumPy", lambda arrays: NumpyPart(graph).run([arrays[name] for name in names])
        engine = find_rival(self.readable).engine
        return engine.title, lambda arrays: engine.open_model(self.readable, arrays, None)()


_MAX_LIST_CHARS = 200  # of a list of names in a message
_NAMES = "values have the names of the model file"


def cut_model(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> Model:
    """Return the part of a model between these values; by default its own inputs or outputs."""
    if not inputs and not outputs:
        return model
    names = known_values(model)
    starts = {_find(name, names, "input"): name for name in inputs}
    _check_starts(model.main, starts)
    stops = {_find(name, names, "output"): name for name in outputs}
    if not stops:
        stops = dict(zip(model.main.results, model.output_names, strict=True))
    part = _Part.of(model.main, frozenset(starts), tuple(stops))
    left = [name for name in model.main.arguments if name in part.needed and name not in starts]
    _check_use(model, starts, left, part)
    own = dict(zip(model.main.arguments, model.input_names, strict=True))
    ports = {**starts, **{name: own[name] for name in left}}
    sizes = dict(zip(model.main.arguments, model.open_sizes, strict=False))
    return replace(
        model,
        main=part.graph(tuple(ports), tuple(stops)),
        input_names=tuple(ports.values()),
        output_names=tuple(stops.values()),
        open_sizes=tuple(sizes.get(name, ()) for name in ports) if sizes else (),
        read_metadata=lambda: _described(model, tuple(ports), tuple(stops)),
    )


def _described(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> ModelMetadata:
    """Return the metadata of the remaining inputs and outputs, in their new order."""
    metadata, graph = model.metadata, model.main
    tensors = dict(zip(graph.arguments, metadata.inputs, strict=False))
    tensors |= dict(zip(graph.results, metadata.outputs, strict=False))
    parts = [
        tuple(tensors.get(name, TensorMetadata()) for name in names) for names in (inputs, outputs)
    ]
    return replace(metadata, inputs=parts[0], outputs=parts[1])


def known_values(model: Model) -> Mapping[str, str]:
    """Return the values that a caller can name: those of the file, and the model's inputs and
    outputs.
    """
    graph, source = model.main, model.source_graph
    names = graph.types if source is None else source.values
    own = {name: name for name in names if name in graph.types}
    own |= dict(zip(model.output_names, graph.results, strict=True))
    return own | dict(zip(model.input_names, graph.arguments, strict=True))


def _find(name: str, names: Mapping[str, str], kind: str) -> str:
    if name not in names:
        what = f"there is no value '{name}' to cut the model at as an {kind}"
        fix = nearest(name, names)
        if len(fix) > _MAX_LIST_CHARS:  # no similar name, so all are listed
            start = fix[:_MAX_LIST_CHARS]
            fix = f"{start}…: 'fourfold explain MODEL --stage graph' shows all {len(names)}"
        raise InputError(what, _NAMES, fix)
    return names[name]


def _check_starts(graph: Graph, starts: Mapping[str, str]) -> None:
    for value, name in starts.items():
        if value in graph.constants:
            why = "it is a constant of the file"
            raise InputError(f"'{name}' cannot be an input", why, "name a computed value")


def _check_use(model: Model, starts: Mapping[str, str], left: Sequence[str], part: _Part) -> None:
    unused = [name for value, name in starts.items() if value not in part.needed]
    if unused:
        what = f"input '{unused[0]}' is not needed"
        raise InputError(what, "no output depends on it", "leave it out of the inputs")
    if starts and left:
        names = dict(zip(model.main.arguments, model.input_names, strict=True))
        missing = ", ".join(f"'{names[name]}'" for name in left)
        what, why = "these inputs do not cut the model", f"its outputs still need {missing}"
        raise InputError(what, why, f"add {missing} to the inputs, or cut further down")


@dataclass(frozen=True)
class _Part:
    """The nodes that compute some values, and all values that these need."""

    full: Graph
    nodes: tuple[Node, ...]
    needed: frozenset[str]

    @staticmethod
    def of(graph: Graph, starts: Collection[str], stops: Sequence[str]) -> _Part:
        needed, count = set(stops), -1
        nodes: list[Node] = []
        while count != len(needed):  # a state's next value is needed once the state is
            count = len(needed)
            nodes = []
            for node in reversed(graph.nodes):
                if any(name in needed and name not in starts for name in node.outputs):
                    nodes.append(_without(node, starts))
                    needed.update(node.reads)
            needed.update(after for state, after in graph.states.items() if state in needed)
        return _Part(graph, tuple(reversed(nodes)), frozenset(needed))

    def graph(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        kept = {name: after for name, after in self.full.states.items() if name in self.needed}
        types = dict(self.full.types)
        for node in self.nodes:
            for name in node.outputs:
                types.setdefault(name, self.full.types[name.removesuffix(_UNUSED)])
        return self.full.with_nodes(
            self.nodes,
            types=types,
            inputs=(*inputs, *kept),
            outputs=(*outputs, *(name for name in kept.values() if name not in outputs)),
            states=kept,
            starts={name: array for name, array in self.full.starts.items() if name in kept},
        )


_UNUSED = "/beside"  # suffix of a result that is not read, since an input has its name


def _without(node: Node, starts: Collection[str]) -> Node:
    outputs = tuple(f"{name}{_UNUSED}" if name in starts else name for name in node.outputs)
    return replace(node, outputs=outputs)
