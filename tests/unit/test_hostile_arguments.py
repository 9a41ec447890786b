"""Values that no option or method expects raise an error of our own, never another one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from small_networks import small_onnx

from fourfold import Session
from fourfold.config import byte_size, count
from fourfold.errors import FourfoldError, InputError
from fourfold.options import SessionOptions


class NoPath(os.PathLike[str]):
    """A path that is none."""

    def __fspath__(self) -> str:
        return 3  # type: ignore[return-value]


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, float("nan"), float("inf"), 3j, 2**70, 10**400),
    *("", "x", "a\0b", "\ud800", "\x1b[31m", "9" * 5000, "y" * 100_000, b"x", b"\0"),
    *([], {}, (), [1], [[]], {1: 2}, {"x": 1}, {"x": "abc"}, {"x": None}, {"x": [1.5]}),
    *({"x": [-1]}, {"x": [2**70]}, {None: (1,)}, {"x": {}}, {"x": NoPath()}, set(), object()),
    *(np.zeros(3), np.float32(2), np.array("x"), range(3), ..., NoPath(), ("a", "b")),
)
# A function of the caller is called with what the option says; its errors are the caller's.
OPTIONS = [one.name for one in fields(SessionOptions)]


def assert_ours(call: Callable[[], Any]) -> None:
    """Call a function, which may succeed or raise an error of our own with all parts."""
    refused: FourfoldError | None = None
    try:
        result = call()
    except FourfoldError as error:
        refused, result = error, None
    assert refused is None or all((refused.what, refused.why, refused.fix))
    if isinstance(result, Session):
        result.close()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(small_onnx(), device="cpu", cache=None) as opened:
        yield opened


@pytest.mark.parametrize("name", OPTIONS)
def test_options_raise_only_our_errors(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a text such as 'x' is a folder for the cache
    for value in VALUES:
        options = {"device": "cpu", "cache": None, name: value}
        assert_ours(lambda options=options: Session(small_onnx(), **options))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shapes", {1: 2}),
        ("shapes", {"x": (1.5,)}),
        ("shapes", [1, 2]),
        ("max_partitions", "many"),
        ("max_partitions", 1.5),
        ("strict", "yes"),
        ("cache", 5),
        ("cache", "a\0b"),
        ("serialization_dir", 5),
        ("on_fallback", 1),
        ("progress", "bar"),
        ("threads", 2**31),
        ("kept_shapes", "9" * 5000),
        ("memory_limit", "9" * 400),
        ("precision", np.zeros(3)),
        ("placement", 3),
        ("model_token", b"x"),
    ],
)
def test_wrong_options_are_input_errors(name: str, value: object) -> None:
    with pytest.raises(InputError):
        Session(small_onnx(), **{"device": "cpu", "cache": None, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["a\0b", "\ud800", NoPath(), [1], (NoPath(), "x"), 3, None, {}])
def test_wrong_sources_are_input_errors(source: Any) -> None:
    with pytest.raises(InputError):
        Session(source, device="cpu", cache=None)


def test_wrong_shapes_are_input_errors(session: Session) -> None:
    (info,) = session.inputs
    for shapes in (1.5, "abc", {1: 2}, {info.name: 1.5}, {info.name: (1.5,)}, {info.name: None}):
        with pytest.raises(InputError):
            session.resize(shapes)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        session.resize(**{info.name: (float("inf"),)})  # type: ignore[arg-type]
    assert session.inputs == (info,)


def test_methods_raise_only_our_errors(
    session: Session, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = session.inputs
    array = np.zeros(info.shape, np.float32)

    def trace(path: Any) -> None:
        with session.trace(path):
            session.run(array)

    monkeypatch.chdir(tmp_path)  # a text such as 'x' is a file for a trace
    for value in VALUES:
        calls: list[Callable[[Any], Any]] = [
            session.run,
            lambda one: session.run({info.name: one}),
            lambda one: session.run([one]),
            lambda one: session.run(array, outputs=one),
            lambda one: session.run(array, out=one),
            lambda one: session.run(one, array),
            session.resize,
            lambda one: session.resize(**{info.name: one}),
            lambda one: session.bind(one, array),
            lambda one: session.bind(info.name, one),
            lambda one: session.bind(info.name, None),
            session.input_array,
            session.output_array,
            lambda one: list(session.stream(one)),
            lambda one: list(session.stream([one])),
            lambda one: list(session.stream([], one)),
            lambda one: session.run_async(one).result(),
            trace,
        ]
        for call in calls:
            assert_ours(lambda call=call, value=value: call(value))
        if not isinstance(value, int):
            assert_ours(lambda value=value: session.profile(array, value))
            assert_ours(lambda value=value: session.run_seconds(array, value))
            assert_ours(lambda value=value: session.device_seconds(array, value))


def test_long_numbers_are_input_errors() -> None:
    for text in ("9" * 5000, 10**400, 2**31, 0, True, "1.5"):
        with pytest.raises(InputError):
            count("threads", text)
    for size in ("9" * 400, "1" * 5000 + "k", 10**400, -1, 1.5e300):
        with pytest.raises(InputError):
            byte_size("memory_limit", size)  # type: ignore[arg-type]
    assert byte_size("memory_limit", "1.5 GiB") == 3 << 29
