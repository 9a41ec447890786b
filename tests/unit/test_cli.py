"""The command line, with a fake session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tflite_writer import Operator, Tensor, write

import fourfold
from fourfold.cli import main
from fourfold.cli._images import PictureOptions, read_frame
from fourfold.cli._inputs import read_photograph
from fourfold.cli._options import parse_shape
from fourfold.cli._outputs import summarise
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError, InputError
from fourfold.graph.metadata import ModelMetadata
from fourfold.options import CompileOptions, SessionOptions
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.stated import StatedPixels
from fourfold.runtime.profile import KernelTime, Profile
from fourfold.runtime.random_inputs import random_inputs
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.tools.report import benchmark
from fourfold.tools.report.timing import Times, take_turns, warm_up
from fourfold.types import Quantization
from fourfold.vision.meaning import DescribedModel

DEVICE = DeviceInfo(
    name="Test GPU",
    vendor="nobody",
    platform="Pretend",
    driver="1.0",
    version="OpenCL 1.2",
    kind="gpu",
    compute_units=4,
    memory=2**31,
    max_allocation=2**29,
    max_work_group=256,
    local_memory=32768,
    alignment=128,
    half_arithmetic=False,
    unified_memory=False,
)


def port(name: str, shape: tuple[int, ...], dtype: Any = "f4", pixels: str = "") -> TensorInfo:
    return TensorInfo(name, shape, np.dtype(dtype), pixels=pixels)


class FakeSession:
    """A fake session that takes a picture and returns twelve scores: the mean pixel plus
    the class.
    """

    opened: list[dict[str, Any]]  # the options that each session was opened with
    inputs = (port("image", (1, 4, 6, 3)),)
    outputs = (port("scores/all:0", (1, 12)), port("mask", (1, 2, 2)))
    metadata = ModelMetadata()
    device = DEVICE
    timings = {"read": 0.001, "build": 0.02}  # noqa: RUF012
    is_in_parts = True
    runs = 0
    compiled = SimpleNamespace(launches=(1, 2, 3), bytes=lambda kind: 3 << 20)

    def __init__(
        self,
        source: str,
        device: Any = None,
        precision: Any = None,
        shapes: Any = None,
        model: Any = None,
        placement: Any = None,
        follow_batch: bool = True,
        threads: Any = None,
        pixels: Any = None,
        signature: Any = None,
        postprocess: Any = None,
    ) -> None:
        self.precision = precision or "fp32"
        self.opened.append(
            {"model": source, "name": model, "device": device, "precision": precision}
        )
        self.opened[-1] |= {"shapes": shapes, "pixels": pixels}
        if pixels is not None:
            self.inputs = (port("image", pixels.frame_shape(1, (4, 6)), "u1", str(pixels)),)

    @classmethod
    def open(cls, source: str, options: SessionOptions) -> FakeSession:
        return cls(source, **options.keywords())

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.runs += 1
        scores = inputs["image"].mean() + np.arange(12, dtype=np.float32)[None]
        return {"scores/all:0": scores, "mask": np.full((1, 2, 2), np.nan, np.float32)}

    @contextmanager
    def trace(self, path: Path, opening: bool) -> Iterator[None]:
        before = self.runs
        yield
        path.write_text(f"{self.runs - before} runs, opening {opening}")

    def profile(self, inputs: dict[str, np.ndarray]) -> Profile:
        times = [
            KernelTime("conv2d", "a = conv2d(image)", 0.001),
            KernelTime("s", "b = s(a)", 0.003),
        ]
        return Profile(times)


Invoke = Callable[..., Result]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Return a model that is only read for the names of its inputs."""
    ends = [Tensor("image", (1, 4, 6, 3)), Tensor("y", (1, 4, 6, 3))]
    path = tmp_path / "model.tflite"
    path.write_bytes(write(ends, [Operator("RELU", ["image"], ["y"])], ["image"], ["y"]))
    return str(path)


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Return a function that calls the command line with a fake session."""
    for name in ("DEVICE", "PRECISION", "SIZES"):  # not CACHE: it would be the user's own
        monkeypatch.delenv(f"FOURFOLD_{name}", raising=False)
    monkeypatch.setattr(FakeSession, "opened", [], raising=False)
    monkeypatch.setattr(fourfold, "Session", FakeSession, raising=False)
    monkeypatch.setattr(benchmark, "Session", FakeSession)
    monkeypatch.setattr(fourfold, "devices", lambda: (DEVICE,), raising=False)
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


def pretend(monkeypatch: pytest.MonkeyPatch, command: str, name: str, **members: Any) -> None:
    """Replace a module by one with these members, for one command."""
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        monkeypatch.setattr(sys.modules[parent], last, module, raising=False)
    monkeypatch.setitem(sys.modules, f"fourfold.cli.{command}", ModuleType("dropped"))
    monkeypatch.delitem(sys.modules, f"fourfold.cli.{command}")


def test_help_lists_every_command(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for name in ("bench", "devices", "explain", "ops", "run"):
        assert f"  {name} " in result.output


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from fourfold.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = [name for name in sys.modules if name.startswith('fourfold.cli.')]\n"
        "sys.exit(repr(loaded) if loaded or 'rich' in sys.modules else 0)"
    )
    path = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 0, done.stderr


def test_help_of_most_commands_imports_little() -> None:
    """Help imports neither the compiler, nor readers of models and outputs, nor rich."""
    program = (
        "import sys\n"
        "from importlib import import_module\n"
        "for name in sys.argv[1].split():\n"
        "    import_module(f'fourfold.cli.{name}')\n"
        "heavy = {'rich', 'fourfold.compiler.compile', 'fourfold.formats', 'fourfold.vision'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "sys.exit(repr(loaded) if loaded else 0)"
    )
    names = "bench cache check devices explain run verify"
    call = subprocess.run(
        [sys.executable, "-c", program, names], capture_output=True, text=True, check=False
    )
    assert call.returncode == 0, call.stderr


def test_run_shows_a_table_and_times(invoke: Invoke, model: str) -> None:
    result = invoke("run", model)
    assert result.exit_code == 0, result.output
    for part in (
        "scores/all:0",
        "1×12",
        "largest of",
        "the meaning of these outputs is unknown",
        "Test GPU",
        "start",
        "first run",
        "nan",
    ):
        assert part in result.output
    assert FakeSession.opened[0] == {
        "model": model,
        "name": None,
        "device": None,
        "precision": None,
        "shapes": None,
        "pixels": None,
    }


def test_run_json_is_strict_json(invoke: Invoke, model: str) -> None:
    report = json.loads(invoke("run", model, "--json").stdout)
    scores, mask = report["outputs"]
    assert [item["place"] for item in scores["largest"]] == [11, 10, 9, 8, 7]
    assert report["answer"]["known"] is False
    assert report["answer"]["unknown"] == ["scores/all:0", "mask"]
    assert scores["max"] - scores["min"] == pytest.approx(11)
    assert mask["mean"] is None
    assert report["seconds"]["stages"] == FakeSession.timings


def test_run_passes_options_on(invoke: Invoke, model: str) -> None:
    words = ("--device", "1", "--precision", "mixed", "--shape", "image=2,4,6,3")
    assert invoke("run", model, *words).exit_code == 0
    expected = {"device": "1", "precision": "mixed", "shapes": {"image": (2, 4, 6, 3)}}
    assert FakeSession.opened[0].items() >= expected.items()


def test_run_passes_bytes_on(invoke: Invoke, model: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (50, 20), (250, 100, 25)).save(tmp_path / "orange.png")
    for order, mean, words, pixels in (
        ("rgb", 125.0, ("--range=-1,1",), Pixels(127.5, 127.5)),
        ("bgra", 157.5, ("--mean", "1,2,3"), Pixels((1, 2, 3), 1, "bgra")),
        ("gray", 136.0, ("--std", "2"), Pixels(0, 2, "gray")),
        ("rgba", 157.5, (), Pixels(0, 255, "rgba")),
    ):
        files = ("--input", tmp_path / "orange.png", "--pixels", order)
        result = invoke("run", model, "--json", *files, *words)
        assert json.loads(result.stdout)["outputs"][0]["min"] == pytest.approx(mean)
        assert FakeSession.opened[-1]["pixels"] == pixels


def test_run_passes_frames_on(invoke: Invoke, model: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (50, 20), (250, 100, 25)).save(tmp_path / "orange.png")
    shapes = []
    for words, pixels in (
        (("--fit", "letterbox", "--fill", "7"), Pixels(0, 255, fit="letterbox", fill=7)),
        (("--frame-size", "8x10", "--resize", "area"), Pixels(0, 255, size=(8, 10), resize="area")),
        (("--crop", "1,2,3,4", "--into", "5,6"), Pixels(0, 255, crop=(1, 2, 3, 4), into=(5, 6))),
        (
            ("--pixels", "bgra", "--fit", "crop", "--model-order", "bgr", "--mean", "1,2,3"),
            Pixels((1, 2, 3), 1, "bgra", fit="crop", model_order="bgr"),
        ),
    ):
        result = invoke("run", model, "--json", "--input", tmp_path / "orange.png", *words)
        assert FakeSession.opened[-1]["pixels"] == pixels
        shapes.append(json.loads(result.stdout)["outputs"][0]["min"])
    assert shapes == pytest.approx([125.0, 125.0, 125.0, 157.5])
    result = invoke("run", model, "--input", tmp_path / "orange.png", "--pixels", "nv12")
    assert "it takes frames in nv12, as a camera gives them, 36 bytes" in result.stderr
    for words in (("--pixels", "auto", "--fit", "crop"), ("--frame-size", "8:10")):
        result = invoke("run", model, *words)
        assert (result.exit_code, "fix:" in result.stderr) == (2, True)


def test_a_frame_keeps_its_size_where_any_may_come(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (50, 20), (250, 100, 25)).save(tmp_path / "orange.png")
    path, shape = tmp_path / "orange.png", (2, 3, 5, 4)
    bgra = [25, 100, 250, 255]
    for pixels, found in (
        (Pixels(order="bgra", fit="crop"), (2, 20, 50, 4)),
        (Pixels(order="bgra", size=(3, 5), fit="crop"), shape),
        (Pixels(order="bgra"), shape),
    ):
        frame = read_frame(path, "x", shape, pixels)
        assert (frame.shape, frame.dtype) == (found, np.uint8)
        assert frame[1, 2, 3].tolist() == bgra


def test_raw_frames_of_a_camera(tmp_path: Path) -> None:
    pixels, shape = Pixels(order="nv12", size=(4, 6)), (2, 6, 6)
    path = tmp_path / "frame.yuv"
    path.write_bytes(bytes(range(72)))
    assert np.array_equal(read_frame(path, "x", shape, pixels).ravel(), np.arange(72))
    path.write_bytes(bytes(71))
    with pytest.raises(InputError, match="as a camera gives them, 72 bytes"):
        read_frame(path, "x", shape, pixels)


def test_bench_and_prepare_scale_bytes_only(invoke: Invoke, model: str, tmp_path: Path) -> None:
    assert invoke("bench", model, "--no-compare", "--pixels", "bgr").exit_code == 0
    assert FakeSession.opened[-1]["pixels"] == Pixels(0, 255, "bgr")
    for command in (("bench", model), ("prepare", model, "-o", tmp_path / "x.fourfold")):
        result = invoke(*command, "--mean", "1")
        assert result.exit_code == 2
        assert "add --pixels with one of rgb" in result.stderr
    result = invoke("bench", model, "--pixels", "rgb", "--range", "1,1")
    assert "has no width" in result.stderr


def test_run_saves_outputs_under_safe_names(invoke: Invoke, model: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"
    assert invoke("run", model, "--output", folder).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["mask.npy", "scores_all_0.npy"]
    assert np.load(folder / "scores_all_0.npy").shape == (1, 12)


def test_run_reads_arrays_and_is_repeatable(invoke: Invoke, model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "ones.npy", np.ones((1, 4, 6, 3), np.float32))
    report = json.loads(
        invoke("run", model, "--json", "--input", f"image={tmp_path}/ones.npy").output
    )
    assert report["outputs"][0]["min"] == 1.0
    first, again, other = (
        json.loads(invoke("run", model, "--json", "--seed", seed).stdout)["outputs"][0]["min"]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_run_reads_a_picture_for_the_only_input(invoke: Invoke, model: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (50, 20), (255, 255, 255)).save(tmp_path / "white.png")
    for words, expected in (
        ((), 1.0),
        (("--range=-1,3",), 3.0),
        (("--mean", "127.5", "--std", "127.5"), 1.0),
        (("--mean", "155,155,155", "--std", "10"), 10.0),
    ):
        result = invoke("run", model, "--json", "--input", tmp_path / "white.png", *words)
        assert json.loads(result.stdout)["outputs"][0]["min"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--input", f"imag={__file__}"), "did you mean 'image'"),
        (("--input", "image=nowhere.npy"), "is missing"),
        (("--shape", "image"), "--shape input=1,224,224,3"),
        (("--range", "0"), "2 numbers"),
        (("--mean", "red"), "numbers with commas"),
    ],
)
def test_run_refuses_wrong_options(
    invoke: Invoke, model: str, words: tuple[str, ...], part: str
) -> None:
    result = invoke("run", model, *words)
    assert result.exit_code == 2
    assert part in result.stderr
    assert "fix:" in result.stderr
    error = json.loads(invoke("run", model, "--json", *words).stdout)["error"]
    assert set(error) == {"type", "what", "why", "fix"}


def test_a_file_that_is_no_array_or_picture_is_refused(
    invoke: Invoke, model: str, tmp_path: Path
) -> None:
    pytest.importorskip("PIL.Image")
    for name in ("noise.npy", "noise.png"):
        (tmp_path / name).write_bytes(b"\x93noise")
        result = invoke("run", model, "--input", f"image={tmp_path / name}")
        assert (result.exit_code, "fix:" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a", "b", "c"), 2),
        (DeviceError("a", "b", "c"), 1),
        (BuildError("a", "line 1: error: b", "source"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_messages_and_codes(
    invoke: Invoke, model: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(self: FakeSession, inputs: object) -> None:
        raise error

    monkeypatch.setattr(FakeSession, "run", fail)
    result = invoke("run", model)
    assert result.exit_code == code
    assert ("interrupted" if code == 130 else "error: a") in result.stderr
    assert "Traceback" not in result.output


def test_usage_errors_are_json_too(invoke: Invoke, model: str) -> None:
    plain, machine = invoke("run", "absent.tflite"), invoke("run", "absent.tflite", "--json")
    assert plain.exit_code == machine.exit_code == 2
    assert "absent.tflite" in json.loads(machine.stdout)["error"]["what"]
    assert invoke("no-such-command").exit_code == 2


def test_devices(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Test GPU" in invoke("devices").output
    (device,) = json.loads(invoke("devices", "--json").output)["devices"]
    assert (device["name"], device["compute_units"]) == ("Test GPU", 4)
    assert device["image_texels"] == 0
    assert "interpreter" in invoke("devices", "interpret").output
    assert invoke("devices", "opengl").exit_code != 0
    monkeypatch.setattr(fourfold, "devices", lambda: ())
    result = invoke("devices")
    assert (result.exit_code, "fourfold[cpu]" in result.stderr) == (1, True)


def test_explain(invoke: Invoke, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain_stage(
        path: str,
        stage: str,
        device: str | None,
        options: CompileOptions,
        trust: str | None,
        full_names: bool,
    ) -> str:
        return repr((stage, device, dict(options.shapes), options.signature, options.postprocess))

    stages = Literal["graph", "plan"]
    pretend(monkeypatch, "explain", "fourfold.session", Stage=stages, explain_stage=explain_stage)
    result = invoke("explain", model, "--stage", "plan", "--shape", "x=2x3", "--signature", "s")
    assert result.output == "('plan', None, {'x': (2, 3)}, 's', None)\n"
    report = json.loads(invoke("explain", model, "--json").output)
    text = "('graph', None, {}, None, None)"
    assert report == {"model": model, "stage": "graph", "text": text}


def test_ops(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    case = SimpleNamespace(inputs=("f32[2,3]", None))
    relu = SimpleNamespace(name="relu", cases=(case,), pointwise=abs, view=None, variants=())
    variant = SimpleNamespace(name="conv2d_1x1")
    conv = SimpleNamespace(
        name="conv2d", cases=(case,), pointwise=None, view=None, variants=(variant,)
    )
    table = {"CONV_2D": "conv2d + relu", "SHAPE": "a constant"}
    tflite = SimpleNamespace(name="TFLite", operators=lambda: table, converter=None)
    keras = SimpleNamespace(name="Keras", operators=dict, converter="TensorFlow")
    known = {"tflite": tflite, "keras": keras}
    pretend(monkeypatch, "ops", "fourfold.formats", formats=lambda: known)
    pretend(
        monkeypatch,
        "ops",
        "fourfold.ops.base",
        Op=SimpleNamespace,
        registry=lambda: {"relu": relu, "conv2d": conv},
    )
    result = invoke("ops")
    assert result.exit_code == 0, result.output
    for part in ("CONV_2D", "a constant", "kernel", "pointwise", "f32", "2 ops of TFLite"):
        assert part in result.output
    assert "Keras" not in result.output  # it is read in another format
    report = json.loads(invoke("ops", "--json").output)
    assert report["tflite"] == table
    assert report["ops"]["conv2d"]["variants"] == ["conv2d_1x1"]


def test_bench_without_the_other_runtime(invoke: Invoke, model: str) -> None:
    result = invoke("bench", model, "--no-compare", "--runs", "5", "--profile")
    assert result.exit_code == 0, result.output
    for part in ("median", "p90", "3 launches, 3.00 MiB", "frames/s", "75.0%"):
        assert part in result.output
    assert len(FakeSession.opened) == 1


def test_bench_compares_with_another_runtime(
    invoke: Invoke, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = {"LiteRT CPU": [lambda: None]}
    monkeypatch.setattr(benchmark.Benchmark, "open_rivals", lambda *arguments: (opened, []))
    report = json.loads(invoke("bench", model, "--json", "--runs", "7").output)
    assert {name: found["runs"] for name, found in report["seconds"].items()} == {
        "fourfold": 7,
        "LiteRT CPU": 7,
    }
    assert report["ratio"] > 0
    assert report["kernels"] == []


@pytest.mark.parametrize(
    ("text", "shape"), [("a=1,2", ("a", (1, 2))), ("a=b=3x4", ("a=b", (3, 4)))]
)
def test_shapes_are_read(text: str, shape: tuple[str, tuple[int, ...]]) -> None:
    assert parse_shape(text) == shape


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "u1", "i4", "i8", "?"])
def test_random_inputs_have_the_requested_type(dtype: str) -> None:
    ports = [port("a", (3, 5), np.dtype(dtype)), port("b", (), np.dtype(dtype))]
    arrays = random_inputs(ports, seed=3)
    assert {name: (array.shape, array.dtype) for name, array in arrays.items()} == {
        "a": ((3, 5), np.dtype(dtype)),
        "b": ((), np.dtype(dtype)),
    }


def read_image(path: Path, taking: TensorInfo, **stated: Any) -> np.ndarray:
    model = DescribedModel((taking,), (), ModelMetadata())
    return read_photograph(path, "x", model, PictureOptions(StatedPixels(**stated))).array


@pytest.mark.parametrize(("dtype", "expected"), [("u1", 200), ("i1", 72), ("f4", 200 / 255)])
def test_pictures_are_converted_to_the_input(tmp_path: Path, dtype: str, expected: float) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (9, 9), 200).save(tmp_path / "grey.png")
    array = read_image(tmp_path / "grey.png", port("x", (2, 3, 5, 1), dtype))
    assert array.shape == (2, 3, 5, 1)
    assert array.flat[7] == pytest.approx(expected)


def test_a_picture_for_channels_first(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (9, 9), (255, 51, 0)).save(tmp_path / "orange.png")
    array = read_image(tmp_path / "orange.png", port("x", (2, 3, 5, 7)))
    assert array.shape == (2, 3, 5, 7)
    assert array[1, :, 4, 6].tolist() == pytest.approx([1, 0.2, 0])


def test_stated_pixels_become_the_numbers_of_a_quantised_input(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (9, 9), (255, 0, 102)).save(tmp_path / "pink.png")
    steps = Quantization((0.5,), (-3,))
    scaled = TensorInfo("x", (1, 3, 5, 3), np.dtype("i1"), steps)
    array = read_image(tmp_path / "pink.png", scaled, range=(-10, 10))
    assert array[0, 1, 2].tolist() == [17, -23, -7]


def test_a_picture_does_not_fit_every_input(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (9, 9)).save(tmp_path / "any.png")
    with pytest.raises(InputError, match="cannot become input"):
        read_image(tmp_path / "any.png", port("x", (1, 10)))
    with pytest.raises(InputError, match="does not fit"):
        read_image(tmp_path / "any.png", port("x", (1, 2, 2, 3)), mean=(1, 2))


def test_empty_outputs_have_no_range() -> None:
    (row,) = summarise({"none": np.zeros((0, 4), np.float32)})
    assert (row["min"], row["shape"]) == (None, [0, 4])


def test_times_are_summed_up() -> None:
    times = Times.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (times.median, times.min, times.max, times.runs) == (3.0, 1.0, 5.0, 5)
    assert times.p90 == pytest.approx(4.6)
    assert Times.of([2.0]).p90 == 2.0


def test_warm_up_ends() -> None:
    assert 1 <= len(warm_up(lambda: None, limit=5.0, most=40)) <= 40
    assert len(warm_up(lambda: None, limit=0.0)) == 1


def test_contestants_take_turns() -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    take_turns(calls, runs=3, limit=10.0)
    assert order == list("ababab")
    assert take_turns(calls, runs=100, limit=0.0)["a"].runs == 3


def test_the_package_is_a_command() -> None:
    """`python -m fourfold` works if scripts of packages are not on the path."""
    words = [sys.executable, "-m", "fourfold", "--version"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stdout == f"fourfold {fourfold.__version__}\n"


def test_a_profile_shows_stages_in_their_order(
    invoke: Invoke, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [
        KernelTime("conv2d", "a = conv2d(image)", 0.001, began=0.0, waiting=0.0),
        KernelTime("softmax", "b = softmax(a)", 0.003, began=0.001, waiting=0.0005),
    ]
    profile = Profile(times, "stages", "a timer", 0.02, 0.0039)
    monkeypatch.setattr(FakeSession, "profile", lambda self, inputs: profile)
    words = ("bench", model, "--no-compare", "--runs", "5", "--profile")
    text = invoke(*words).output
    assert text.index("conv2d") < text.index("softmax")
    assert "stages of the one launch that is played" in text
    assert "0.500 ms" in text
    assert "with a timer, which adds 2.0% to the 3.900 ms of the launch" in text
    report = json.loads(invoke(*words, "--json").output)
    assert [one["kernel"] for one in report["kernels"]] == ["softmax", "conv2d"]
    timed = {"form": "stages", "clock": "a timer", "clock_cost": 0.02, "launch": 0.0039}
    assert report["timed"] == timed


@pytest.mark.parametrize(("command", "runs"), [("run", 1), ("bench", 5)])
def test_a_trace_is_of_some_runs(
    command: str, runs: int, invoke: Invoke, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    words = ("--no-compare", "--runs", "7") if command == "bench" else ()
    result = invoke(command, model, "--trace", path, *words)
    assert result.exit_code == 0, result.output
    opening = command == "run"  # bench records no opening, which is long before its measured runs
    assert path.read_text() == f"{runs} runs, opening {opening}"
    assert "ui.perfetto.dev" in result.output
