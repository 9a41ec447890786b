"""Other shapes: a session changes to them by itself or when told, and keeps the last few."""

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

OPEN = (-1, -1, -1, 3)
OWN = (1, 5, 7, 3)
SHAPES = [(1, 11, 13, 3), (3, 5, 7, 3), (2, 17, 3, 3), OWN]


def image_model(signature: tuple[int, ...] | None = OPEN) -> bytes:
    """A convolution and a softmax over channels, for pictures of any size."""
    weights = np.random.default_rng(5).uniform(-1, 1, (6, 3, 3, 3)).astype(np.float32)
    return write(
        [
            Tensor("x", OWN, signature=signature),
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


def picture(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    graph = read_model(image_model(), ReadOptions({"x": x.shape})).main
    return evaluate(graph, {"x": x})["y"]


def agrees(session: fourfold.Session, x: np.ndarray) -> bool:
    found, right = session.run(x)["y"], expected(x)
    return found.shape == right.shape and np.allclose(found, right, atol=1e-6)


def test_an_open_size_follows_the_array(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None) as session:
        assert session.inputs[0].signature == OPEN
        for shape in SHAPES:
            assert agrees(session, picture(shape))
            assert session.inputs[0].shape == shape
            assert session.outputs[0].shape == expected(picture(shape)).shape


@pytest.mark.parametrize("how", ["dict", "name", "shape", "list"])
def test_resize_by_dict_name_or_alone(device: DeviceInfo, how: str) -> None:
    shape = SHAPES[0]
    with fourfold.Session(image_model(None), device, cache=None) as session:
        if how == "name":
            session.resize(x=shape)
        else:
            session.resize({"dict": {"x": shape}, "shape": shape, "list": list(shape)}[how])
        assert agrees(session, picture(shape))


def test_a_model_on_the_cpu_changes_too() -> None:
    with fourfold.Session(image_model(), device="cpu", cache=None) as session:
        for shape in SHAPES:
            assert agrees(session, picture(shape))


def test_a_fixed_size_is_changed_by_resize_only(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(None), device, cache=None) as session:
        with pytest.raises(InputError, match=r"session.resize\(\{'x': \(1, 11, 13, 3\)\}\)"):
            session.run(picture(SHAPES[0]))
        assert agrees(session, picture(OWN))


def test_what_the_signature_fixes_stays_fixed(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None) as session:
        with pytest.raises(InputError, match=r"has no dynamic size"):
            session.run(picture((1, 5, 7, 4)))
        with pytest.raises(InputError, match=r"pass x\[None\]"):
            session.run(picture((5, 7, 3)))
        assert agrees(session, picture(OWN))


def test_a_shape_that_does_not_fit_names_the_operator_and_changes_nothing(
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
        assert agrees(session, picture(SHAPES[0]))


def test_names_and_sizes_that_are_none(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None) as session:
        with pytest.raises(InputError, match="no input 'z'"):
            session.resize(z=OWN)
        with pytest.raises(InputError, match="no shapes"):
            session.resize(x=("wide", 1))


def test_nothing_is_made_again_for_a_shape_that_comes_back(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    compile_request = loading.compile_request
    monkeypatch.setattr(
        loading, "compile_request", lambda *args: made.append(args) or compile_request(*args)
    )
    with fourfold.Session(image_model(), device, cache=None) as session:
        for seed in range(3):
            for shape in SHAPES:
                assert agrees(session, picture(shape, seed))
        assert len(made) == len(SHAPES)


def test_the_least_recently_used_goes_first(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, tuple[int, ...]]] = []
    compile_request = loading.compile_request

    def noted(request: Request, *rest: object) -> object:
        made.append(dict(request.compile_options.shapes))
        return compile_request(request, *rest)

    monkeypatch.setattr(loading, "compile_request", noted)
    first, second, _, own = SHAPES
    with fourfold.Session(image_model(), device, cache=None, kept_shapes=2) as session:
        for shape in (first, own, second, own, first):
            assert agrees(session, picture(shape))
    assert made == [{}, {"x": first}, {"x": second}, {"x": first}]
    with pytest.raises(InputError, match="kept_shapes is 0"):
        fourfold.Session(image_model(), device, cache=None, kept_shapes=0)


def test_each_shape_starts_warm(device: DeviceInfo, tmp_path: Path) -> None:
    origins = []
    for _ in range(2):
        with fourfold.Session(image_model(), device, cache=tmp_path) as session:
            for shape in (OWN, *SHAPES[:2]):
                assert agrees(session, picture(shape))
                origins.append(session.origin)
    assert origins == ["model"] * 3 + ["store"] * 3


def test_a_prepared_file_has_the_shapes_that_were_prepared(
    device: DeviceInfo, tmp_path: Path
) -> None:
    path, prepared = tmp_path / "image.tflite", tmp_path / "image.fourfold"
    path.write_bytes(image_model())
    draft = Draft()
    for shape in (SHAPES[0], OWN, SHAPES[1]):
        sizes = {} if shape == OWN else {"x": shape}
        prepare_model(draft, path, device, CompileOptions(shapes=sizes), {})
    draft.write(prepared)
    with fourfold.Session(prepared, device, cache=None, kept_shapes=1) as session:
        assert session.inputs[0].shape == OWN
        for shape in (*SHAPES[:2], OWN):
            assert agrees(session, picture(shape))
            assert session.origin == "file"
        with pytest.raises(InputError, match="it was prepared for"):
            session.run(picture(SHAPES[2]))
        assert agrees(session, picture(OWN, 1))


def test_shapes_from_the_start_and_back(device: DeviceInfo) -> None:
    given = {"x": list(SHAPES[1])}
    with fourfold.Session(image_model(), device, shapes=given, cache=None) as session:
        for shape in (SHAPES[1], OWN, SHAPES[1]):
            assert agrees(session, picture(shape))


def test_threads_with_different_shapes(device: DeviceInfo) -> None:
    wrong: list[tuple[int, ...]] = []
    with fourfold.Session(image_model(), device, cache=None, kept_shapes=2) as session:

        def work(shape: tuple[int, ...]) -> None:
            right = all(agrees(session, picture(shape, seed)) for seed in range(5))
            wrong.extend([] if right else [shape])

        threads = [threading.Thread(target=work, args=(shape,)) for shape in SHAPES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_the_same_kernels_are_built_once(device: DeviceInfo) -> None:
    with (
        fourfold.Session(image_model(), device, cache=None) as one,
        fourfold.Session(image_model(), device, cache=None) as other,
    ):
        assert one.plan.program == other.plan.program
        programs = {id(session._instance.executor.player._program) for session in (one, other)}
        assert len(programs) == 1
        assert agrees(one, picture(OWN))
        assert agrees(other, picture(OWN, 1))


def test_a_closed_session_is_not_resized(device: DeviceInfo) -> None:
    session = fourfold.Session(image_model(), device, cache=None)
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.resize(SHAPES[0])
