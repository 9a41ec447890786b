"""CUDA binaries and compilers of other versions: compatibility, loading, and error messages."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cuda_on_host import COMPILER, HostKernels, needs_compiler
from fake_cuda import FakeCuda
from imagined_gpu import imagined_gpu, installed
from small_networks import small_onnx

import fourfold
from fourfold.backends import find_device, probe
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda import nvrtc, program
from fourfold.backends.cuda.architectures import runs
from fourfold.backends.cuda.binding import linker
from fourfold.backends.cuda.image import Image, unpack
from fourfold.backends.cuda.player import Player
from fourfold.cli import main
from fourfold.errors import BuildError, DeviceError, InputError
from fourfold.plan import Program
from fourfold.store.keys import loadable_parts, program_parts
from fourfold.store.prepared import Prepared
from fourfold.support import log

Install = Callable[[FakeCuda], FakeCuda]
IMAGE = Image("sm_90", "NVRTC 13.4", b"code", b"ptx")
EMPTY = Program("", "")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Yield a function that installs a fake driver for one test."""
    monkeypatch.setattr(log, "_said", {})
    with ExitStack() as held:
        yield lambda driver: held.enter_context(installed(driver))


@pytest.mark.parametrize(
    ("gpu", "code", "able"),
    [
        ("sm_90", "sm_90", True),
        ("sm_89", "sm_86", True),
        ("sm_86", "sm_80", True),
        ("sm_86", "sm_89", False),  # newer code
        ("sm_90", "sm_89", False),  # another generation
        ("sm_89", "sm_87", False),  # code for Jetson
        ("sm_87", "sm_80", False),
        ("sm_87", "sm_87", True),
    ],
)
def test_code_compatibility_follows_architecture_rules(gpu: str, code: str, able: bool) -> None:
    assert runs(gpu, code) == able
    image = unpack(IMAGE._replace(architecture=code).pack())
    assert image is not None
    codes = image.codes_for(gpu)
    assert codes[0] == (b"code" if able else b"ptx")
    assert (b"ptx" in codes) == (gpu != code)


def prepare_file(folder: Path, architecture: str, units: int = 1) -> str:
    """Prepare a file for an architecture, without a generic plan."""
    model, file = folder / "small.onnx", str(folder / "small.fourfold")
    model.write_bytes(small_onnx())

    def stand_in(program: Program, built_for: str) -> Image:
        return Image(built_for, "NVRTC 13.4", b"code", b"ptx")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "build", stand_in)
        words = ["prepare", str(model), "-o", file, "--only-here", "--units", str(units)]
        done = CliRunner().invoke(main, [*words, "--device", f"cuda:{architecture}"])
    assert done.exit_code == 0, done.output
    return file


def kernels_of(file: str, folder: Path) -> HostKernels:
    prepared = Prepared.open(file)
    plan = prepared.model(prepared.best(0, probe(find_device("cuda:0")))).plan
    return HostKernels(plan.program, folder)


@needs_compiler
@pytest.mark.parametrize(
    ("architecture", "taken"),
    [("sm_87", b"ptx"), ("sm_80", b"code"), ("sm_80", b"ptx"), ("sm_75", b"ptx")],
)
def test_file_for_an_older_gpu_runs_without_a_compiler(
    architecture: str, taken: bytes, install: Install, tmp_path: Path
) -> None:
    """The GPU runs the code if it is compatible, else its PTX."""
    driver = install(FakeCuda(capability=(8, 9)))
    file = prepare_file(tmp_path, architecture)
    driver.images[taken] = kernels_of(file, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "libraries", lambda: pytest.fail("a compiler was asked for"))
        with fourfold.Session(file, device="cuda:0", cache=None) as session:
            shape = session.inputs[0].shape
            picture = np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)
            result = next(iter(session.run(picture).values()))
    with fourfold.Session(str(tmp_path / "small.onnx"), device="interpret") as session:
        expected = next(iter(session.run(picture).values()))
    assert driver.launched
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_file_for_a_newer_gpu_needs_a_compiler(
    install: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither code nor PTX can be loaded; without a compiler the error explains both."""
    install(FakeCuda(capability=(8, 9)))
    file = prepare_file(tmp_path, "sm_90")
    monkeypatch.setattr(nvrtc, "libraries", cache(nvrtc.libraries.__wrapped__))
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(()))
    with pytest.raises(DeviceError, match="NVRTC cannot be loaded") as caught:
        fourfold.Session(file, device="cuda:0", cache=None)
    assert "pip install fourfold[cuda]" in caught.value.fix
    assert "was not prepared for Imagined GPU" in caplog.text
    assert "sm_90, compiled from source" in caplog.text


def test_rejects_a_one_launch_plan_for_a_larger_gpu(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One launch for more units than available would wait forever."""
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one")
    install(FakeCuda(capability=(9, 0), units=1))
    file = prepare_file(tmp_path, "sm_90", units=2)
    with pytest.raises(InputError, match=r"no plan in .* can run on Imagined GPU") as caught:
        fourfold.Session(file, device="cuda:0", cache=None)
    assert "the one for any sm_90" in caught.value.why
    assert "fourfold prepare --add" in caught.value.fix


def test_binaries_are_cached_by_architecture(install: Install) -> None:
    """The compiler's version is stored in the binary, so running it needs no compiler."""
    install(FakeCuda(capability=(8, 9)))
    device = find_device("cuda:0")
    own, *older = loadable_parts(EMPTY, device)
    assert own == program_parts(EMPTY, device)
    assert own["architecture"] == "sm_89"
    assert [one["architecture"] for one in older] == ["sm_87", "sm_86", "sm_80", "sm_75"]
    image = unpack(IMAGE.pack())
    assert image is not None
    assert image.compiler == "NVRTC 13.4"


def test_explains_code_that_is_too_new_for_the_driver(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install(FakeCuda(version=12040)).failures["cuModuleLoadData"] = 222
    assert program.load_binary(find_device("cuda:0"), IMAGE.pack()) is None
    assert "rejects code of NVRTC 13.4 for sm_90" in caplog.text
    assert "CUDA 12.4" in caplog.text
    assert "update NVIDIA's driver" in caplog.text


@pytest.mark.parametrize(
    ("status", "fix"), [(221, "libnvidia-ptxjitcompiler"), (223, "CUDA_DISABLE_PTX_JIT")]
)
def test_explains_a_driver_without_a_ptx_compiler(
    status: int, fix: str, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """An older NVRTC would not help, and is not suggested."""
    install(FakeCuda(capability=(12, 0))).failures["cuModuleLoadData"] = status
    assert program.load_binary(find_device("cuda:0"), IMAGE.pack()) is None
    assert fix in caplog.text
    assert "nvrtc-cu12" not in caplog.text


def test_error_for_a_compiler_newer_than_the_driver_suggests_an_older_one(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(FakeCuda(version=12040)).failures["cuModuleLoadData"] = 200
    monkeypatch.setattr(nvrtc, "known_architecture", lambda architectures: architectures[0])
    monkeypatch.setattr(nvrtc, "build", lambda program, architecture: IMAGE)
    with pytest.raises(DeviceError, match=r"rejects code that NVRTC 13\.4 built") as caught:
        program.build_text(find_device("cuda:0"), EMPTY)
    assert "CUDA 12.4" in caught.value.why
    assert "pip install nvidia-cuda-nvrtc-cu12" in caught.value.fix


PARTS = Program("#if IN_PART(0)\n#endif\n#if IN_PART(1)\n#endif\n", "")


def test_program_parts_are_compiled_and_linked(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linked image has no PTX and can be loaded again."""
    driver = install(FakeCuda(capability=(9, 0)))
    install_fake_compilers(monkeypatch, (), (90,))
    monkeypatch.setattr(nvrtc, "build_parts", lambda program, architecture: [b"a", b"b"])
    monkeypatch.setattr(linker, "linked", b"+".join)
    driver.images[b"a+b"] = object()  # type: ignore[assignment]
    device = find_device("cuda:0")
    image = program.build_text(device, PARTS).image
    assert image == Image("sm_90", "NVRTC 13.0", b"a+b", b"")
    assert program.load_binary(device, image.pack()) is not None


@needs_compiler
@pytest.mark.parametrize("ran_before", [True, False])
def test_prepared_binaries_are_built_in_one_piece(
    ran_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds after a first run cached a linked image; later starts use the new one."""
    model, file = tmp_path / "small.onnx", str(tmp_path / "small.fourfold")
    model.write_bytes(small_onnx())
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path / "cache"))

    def has_ptx(source: object) -> bool:
        with fourfold.Session(source, "cuda:0") as session:
            picture = np.random.default_rng(3).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)
            output = session.run(picture)["scores"]
            np.testing.assert_allclose(output, expected(picture), rtol=1e-5, atol=1e-5)
            player = session._instance.executor.player
            assert isinstance(player, Player)
            image = unpack(player.binary())
            assert image is not None
            return bool(image.ptx)

    def expected(picture: np.ndarray) -> np.ndarray:
        with fourfold.Session(model, device="interpret", cache=None) as session:
            return np.asarray(session.run(picture)["scores"])

    # Patches made while the fake GPU is installed must be undone before it is removed.
    with imagined_gpu(FakeCuda(capability=(9, 0))), pytest.MonkeyPatch.context() as patch:
        build = nvrtc.build
        install_fake_compilers(patch, (), (90,))
        patch.setattr(nvrtc, "build_parts", lambda *given: [build(*given).cubin])
        patch.setattr(linker, "linked", b"".join)
        if ran_before:
            assert not has_ptx(model)
        words = ["prepare", str(model), "-o", file, "--only-here", "--device", "cuda:0"]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        assert has_ptx(file)
        assert has_ptx(model)


@pytest.mark.parametrize("fault", ["compiler", "linker", "driver"])
def test_falls_back_to_one_piece_when_linking_fails(
    fault: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = install(FakeCuda(capability=(9, 0)))
    install_fake_compilers(monkeypatch, (), (90,))

    def parts(text: Program, architecture: str) -> list[bytes]:
        if fault == "compiler":
            raise BuildError("the kernels do not build", "a part of them", text.text)
        return [b"a", b"b"]

    def linked(codes: list[bytes]) -> bytes:
        if fault == "linker":
            raise cu.Error("cuLinkComplete", 1)
        return b"what no driver takes"

    monkeypatch.setattr(nvrtc, "build_parts", parts)
    monkeypatch.setattr(linker, "linked", linked)
    monkeypatch.setattr(nvrtc, "build", lambda program, architecture: IMAGE)
    driver.images[b"code"] = object()  # type: ignore[assignment]
    assert program.build_text(find_device("cuda:0"), PARTS).image == IMAGE


@pytest.mark.parametrize(
    ("compiler", "architecture"), [((12, 9), "sm_90"), ((13, 0), "sm_75"), ((13, 0), "sm_90")]
)
def test_parts_need_a_recent_compiler_and_architecture(
    compiler: tuple[int, int], architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before NVRTC 13.0 and sm_80, registers across calls between parts are not guaranteed."""
    one = nvrtc.Library(None, "a compiler", compiler)  # type: ignore[arg-type]
    monkeypatch.setattr(nvrtc, "compiler_for", lambda *_: one)
    monkeypatch.setattr(nvrtc, "_compiled", lambda *how: pytest.fail("it was compiled"))
    assert nvrtc.build_parts(PARTS if architecture == "sm_75" else EMPTY, architecture) == []
    if compiler < (13, 0):
        assert nvrtc.build_parts(PARTS, architecture) == []


def install_fake_compilers(patch: pytest.MonkeyPatch, *known: tuple[int, ...]) -> None:
    """Install fake compilers 12.0, 13.0 and so on that support these architectures."""
    every = [nvrtc.Library(None, f"{major}", (major, 0)) for major in range(12, 12 + len(known))]  # type: ignore[arg-type]
    patch.setattr(nvrtc, "libraries", lambda: tuple(every))
    patch.setattr(nvrtc, "supported", lambda one: known[one.version[0] - 12])


def test_uses_the_oldest_compiler_that_supports_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    install_fake_compilers(monkeypatch, (75, 80, 90), (75, 80, 90, 120))
    assert nvrtc.compiler_for("sm_90").name == "NVRTC 12.0"
    assert nvrtc.compiler_for("sm_120").name == "NVRTC 13.0"
    assert nvrtc.compiler_for("sm_90", minimum=(12, 1)).name == "NVRTC 13.0"
    with pytest.raises(DeviceError, match="cannot build for sm_90") as caught:
        nvrtc.compiler_for("sm_90", minimum=(14, 0))
    assert "newer" in caught.value.fix


def test_architecture_specific_instructions_need_a_newer_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_fake_compilers(monkeypatch, (75, 80, 90), (75, 80, 90, 120))
    monkeypatch.setattr(nvrtc, "_OWN_INSTRUCTIONS", (13, 0))
    own = Program("", "--std=c++17 --gpu-architecture=sm_90a")
    assert nvrtc.compiler_of(own, "sm_90").name == "NVRTC 13.0"
    assert nvrtc.compiler_of(EMPTY, "sm_90").name == "NVRTC 12.0"


def test_gpu_newer_than_all_compilers_gets_ptx(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PTX is for the newest architecture that a compiler supports."""
    driver = install(FakeCuda(capability=(12, 0)))
    install_fake_compilers(monkeypatch, (75, 80, 86, 87, 89, 90))
    built: list[str] = []

    def build(text: Program, architecture: str) -> Image:
        built.append(architecture)
        return IMAGE._replace(architecture=architecture)

    monkeypatch.setattr(nvrtc, "build", build)
    driver.images[b"ptx"] = object()  # type: ignore[assignment]
    module = program.build_text(find_device("cuda:0"), EMPTY)
    assert built == ["sm_90"]
    assert module.image.architecture == "sm_90"


@pytest.mark.parametrize(
    ("architecture", "fix"), [("sm_61", "nvidia-cuda-nvrtc-cu12"), ("sm_120", "--upgrade")]
)
def test_rejects_architectures_that_no_compiler_supports(
    architecture: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_compilers(monkeypatch, (75, 80, 90))
    with pytest.raises(DeviceError, match=f"NVRTC 12.0 cannot build for {architecture}") as caught:
        nvrtc.known_architecture([architecture])
    assert "it supports sm_75, sm_80, sm_90" in caught.value.why
    assert fix in caught.value.fix


@needs_compiler
def test_rejects_a_compiler_without_its_builtins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvrtc.libraries.cache_clear()
    source, library = tmp_path / "nvrtc.cpp", tmp_path / "libnvrtc.so.19"
    source.write_text('extern "C" int nvrtcVersion(int *a, int *b) { *a = 19; *b = 7; return 0; }')
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter([str(library), "libnvrtc.so.19"]))
    with pytest.raises(DeviceError, match="NVRTC cannot be loaded") as caught:
        nvrtc.libraries()
    assert str(library) in caught.value.why
    assert "libnvrtc-builtins.so.19.7" in caught.value.why
    assert "--force-reinstall nvidia-cuda-nvrtc" in caught.value.fix
    nvrtc.libraries.cache_clear()
