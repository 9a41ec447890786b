"""Optimizer: reads, cuts, simplifies, writes and places one model, and compares the result."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
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
from fourfold.errors import Refusal, UnsupportedError
from fourfold.export.optimize.answers import Answers, Arrays, Run, compare_answers
from fourfold.export.optimize.cut import cut_model
from fourfold.export.optimize.options import CPU, OptimizeOptions, QuantizationRequest
from fourfold.export.optimize.output_file import PREPARED, writable_formats
from fourfold.export.optimize.passes import PassResult, fuse, simplify
from fourfold.export.optimize.report import OptimizedModel
from fourfold.export.quantize.progress import ProgressCounter
from fourfold.export.quantize.quantizer import Quantizer
from fourfold.export.quantize.report import QuantizeReport
from fourfold.export.quantize.samples import SamplesOption, read_samples
from fourfold.export.quantize.simplify import simplify_model
from fourfold.formats import Format, Model, ReadOptions, find_format, model_files, read_model
from fourfold.formats.writable import WritableModel
from fourfold.ops.foreign import Foreign
from fourfold.options import CompileOptions
from fourfold.plan.placement import Placement
from fourfold.runtime.random_inputs import random_inputs
from fourfold.session import Session
from fourfold.tools.report.rival import find_rival

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
        samples = None if passed is None else read_samples(passed, model, self.options.pixels)
        device = None if self.device is NULL_GPU else self.device
        began = time.perf_counter()
        work = Quantizer(model, request.options, form, samples, samples, device, self.steps)
        return replace(work.run(), seconds=time.perf_counter() - began)

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
            samples = self._samples(session, verify)
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
        return Answers(title, len(samples), rows)

    def _samples(self, session: Session, verify: VerifyOption) -> Sequence[Arrays]:
        """Return the inputs for both models, by input name."""
        if isinstance(verify, int):  # True is seed 1
            return [random_inputs(session.inputs, int(verify))]
        samples = read_samples(verify, self.model, self.options.pixels, least=1)
        names = dict(zip(self.model.main.arguments, self.model.input_names, strict=True))
        return [{names[value]: array for value, array in one.items()} for one in samples]

    def _original(self) -> tuple[str, Run]:
        """Return the runtime of the original model: its format's own, or NumPy if it was cut."""
        if self.options.inputs or self.options.outputs:
            graph, names = self.model.main, self.model.input_names
            return "NumPy", lambda arrays: NumpyPart(graph).run([arrays[name] for name in names])
        engine = find_rival(self.readable).engine
        return engine.title, lambda arrays: engine.open_model(self.readable, arrays, None)()
