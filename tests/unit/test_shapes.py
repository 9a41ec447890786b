"""A session changes input shapes on its own or with `resize`, and caches recent ones."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tflite_writer import Operator, Tensor, write

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import ReadOptions, read_model
from fourfold.options import CompileOptions
from fourfold.runtime import loading
from fourfold.runtime.request import Request
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

OPEN_SHAPE = (-1, -1, -1, 3)
MODEL_SHAPE = (1, 5, 7, 3)
SHAPES = [(1, 11, 13, 3), (3, 5, 7, 3), (2, 17, 3, 3), MODEL_SHAPE]


def image_model(signature: tuple[int, ...] | None = OPEN_SHAPE) -> bytes:
    """Return a model of a convolution and a softmax over channels, for images of any size."""
    weights = np.random.default_rng(5).uniform(-1, 1, (6, 3, 3, 3)).astype(np.float32)
    return write(
        [
            Tensor("x", MODEL_SHAPE, signature=signature),
            Tensor("w", weights.shape, data=weights),
            Tensor("b", (6,), data=np.arange(6, dtype=np.float32)),
            Tensor("conv", (1, 3, 4, 6)),
            Tensor("y", (1, 3, 4, 6)),
        ],
        [
            Operator("CONV_2D", ["x", "w", "b"], ["conv"], "Conv2DOptions",
                     {"StrideW": 2, "StrideH": 2, "Padding": 0}),
            Operator("SOFTMAX", ["conv"], ["y"], "SoftmaxOptions", {"Beta": 1.0}),
        ],
        inputs=["x"],
        outputs=["y"],
    )  # fmt: skip


def random_image(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    graph = read_model(image_model(), ReadOptions({"x": x.shape})).main
    return evaluate(graph, {"x": x})["y"]


def matches_reference(session: fourfold.Session, x: np.ndarray) -> bool:
    output, reference = session.run(x)["y"], expected(x)
    return output.shape == reference.shape and np.allclose(output, reference, atol=1e-6)


def test_open_sizes_follow_the_array(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None) as session:
        assert session.inputs[0].signature == OPEN_SHAPE
        for shape in SHAPES:
            assert matches_reference(session, random_image(shape))
            assert session.inputs[0].shape == shape
            assert session.outputs[0].shape == expected(random_image(shape)).shape


@pytest.mark.parametrize("form", ["dict", "name", "shape", "list"])
def test_resize_accepts_dict_name_or_shape(device: DeviceInfo, form: str) -> None:
    shape = SHAPES[0]
    with fourfold.Session(image_model(None), device, cache=None) as session:
        if form == "name":
            session.resize(x=shape)
        else:
            session.resize({"dict": {"x": shape}, "shape": shape, "list": list(shape)}[form])
        assert matches_reference(session, random_image(shape))


def test_open_sizes_follow_the_array_on_the_cpu() -> None:
    with fourfold.Session(image_model(), device="cpu", cache=None) as session:
        for shape in SHAPES:
            assert matches_reference(session, random_image(shape))


def test_fixed_sizes_change_only_with_resize(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(None), device, cache=None) as session:
        with pytest.raises(InputError, match=r"session.resize\(\{'x': \(1, 11, 13, 3\)\}\)"):
            session.run(random_image(SHAPES[0]))
        assert matches_reference(session, random_image(MODEL_SHAPE))


def test_sizes_fixed_by_the_signature_are_checked(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None) as session:
        with pytest.raises(InputError, match=r"has no dynamic size"):
            session.run(random_image((1, 5, 7, 4)))
        with pytest.raises(InputError, match=r"pass x\[None\]"):
            session.run(random_image((5, 7, 3)))
        assert matches_reference(session, random_image(MODEL_SHAPE))


def test_invalid_shape_error_names_the_operator_and_keeps_the_shape(
    device: DeviceInfo,
) -> None:
    with fourfold.Session(image_model(None), device, cache=None) as session:
        session.resize(SHAPES[0])
        with pytest.raises(InputError, match="CONV_2D 'conv' does not fit the requested shapes"):
            session.resize((1, 5, 7, 4))
        for shape in ((1, 5, 7), (1, 0, 7, 3), (1, -5, 7, 3)):
            with pytest.raises(InputError, match="does not fit input 'x'"):
                session.resize(shape)
        assert session.inputs[0].shape == SHAPES[0]
        assert matches_reference(session, random_image(SHAPES[0]))


def test_resize_rejects_unknown_inputs_and_invalid_sizes(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None) as session:
        with pytest.raises(InputError, match="no input 'z'"):
            session.resize(z=MODEL_SHAPE)
        with pytest.raises(InputError, match="not shapes"):
            session.resize(x=("wide", 1))


def test_recurring_shapes_are_not_compiled_again(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilations: list[object] = []
    compile_request = loading.compile_request
    monkeypatch.setattr(
        loading,
        "compile_request",
        lambda *args: compilations.append(args) or compile_request(*args),
    )
    with fourfold.Session(image_model(), device, cache=None) as session:
        for seed in range(3):
            for shape in SHAPES:
                assert matches_reference(session, random_image(shape, seed))
        assert len(compilations) == len(SHAPES)


def test_least_recently_used_shape_is_evicted_first(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilations: list[dict[str, tuple[int, ...]]] = []
    compile_request = loading.compile_request

    def recording_compile(request: Request, *arguments: object) -> object:
        compilations.append(dict(request.compile_options.shapes))
        return compile_request(request, *arguments)

    monkeypatch.setattr(loading, "compile_request", recording_compile)
    first, second, _, own = SHAPES
    with fourfold.Session(image_model(), device, cache=None, kept_shapes=2) as session:
        for shape in (first, own, second, own, first):
            assert matches_reference(session, random_image(shape))
    assert compilations == [{}, {"x": first}, {"x": second}, {"x": first}]
    with pytest.raises(InputError, match="kept_shapes is 0"):
        fourfold.Session(image_model(), device, cache=None, kept_shapes=0)


def test_each_shape_is_cached(device: DeviceInfo, tmp_path: Path) -> None:
    origins = []
    for _ in range(2):
        with fourfold.Session(image_model(), device, cache=tmp_path) as session:
            for shape in (MODEL_SHAPE, *SHAPES[:2]):
                assert matches_reference(session, random_image(shape))
                origins.append(session.origin)
    assert origins == ["model"] * 3 + ["store"] * 3


def test_prepared_file_supports_its_prepared_shapes(device: DeviceInfo, tmp_path: Path) -> None:
    path, prepared = tmp_path / "image.tflite", tmp_path / "image.fourfold"
    path.write_bytes(image_model())
    draft = Draft()
    for shape in (SHAPES[0], MODEL_SHAPE, SHAPES[1]):
        sizes = {} if shape == MODEL_SHAPE else {"x": shape}
        prepare_model(draft, path, device, CompileOptions(shapes=sizes), {})
    draft.write(prepared)
    with fourfold.Session(prepared, device, cache=None, kept_shapes=1) as session:
        assert session.inputs[0].shape == MODEL_SHAPE
        for shape in (*SHAPES[:2], MODEL_SHAPE):
            assert matches_reference(session, random_image(shape))
            assert session.origin == "file"
        with pytest.raises(InputError, match="it was prepared for"):
            session.run(random_image(SHAPES[2]))
        assert matches_reference(session, random_image(MODEL_SHAPE, 1))


def test_initial_shapes_can_change_and_return(device: DeviceInfo) -> None:
    initial_shapes = {"x": list(SHAPES[1])}
    with fourfold.Session(image_model(), device, shapes=initial_shapes, cache=None) as session:
        for shape in (SHAPES[1], MODEL_SHAPE, SHAPES[1]):
            assert matches_reference(session, random_image(shape))


def test_threads_run_different_shapes(device: DeviceInfo) -> None:
    failed_shapes: list[tuple[int, ...]] = []
    with fourfold.Session(image_model(), device, cache=None, kept_shapes=2) as session:

        def work(shape: tuple[int, ...]) -> None:
            all_match = all(
                matches_reference(session, random_image(shape, seed)) for seed in range(5)
            )
            failed_shapes.extend([] if all_match else [shape])

        threads = [threading.Thread(target=work, args=(shape,)) for shape in SHAPES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed_shapes == []


def test_equal_kernels_are_built_once(device: DeviceInfo) -> None:
    with (
        fourfold.Session(image_model(), device, cache=None) as one,
        fourfold.Session(image_model(), device, cache=None) as other,
    ):
        assert one.plan.program == other.plan.program
        programs = {id(session._instance.executor.player._program) for session in (one, other)}
        assert len(programs) == 1
        assert matches_reference(one, random_image(MODEL_SHAPE))
        assert matches_reference(other, random_image(MODEL_SHAPE, 1))


def test_closed_session_cannot_be_resized(device: DeviceInfo) -> None:
    session = fourfold.Session(image_model(), device, cache=None)
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.resize(SHAPES[0])
