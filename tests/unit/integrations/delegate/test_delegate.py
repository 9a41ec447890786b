"""GpuDelegate in an interpreter: nodes that it claims and leaves, and its errors."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from docs.tiny_model import tiny_model
from runtimes import INSTALLED, MODULES, RUNTIMES, interpreter, run
from split_models import split_model
from tflite_writer import Operator, Subgraph, Tensor, constant, write, write_model

import fourfold
from fourfold.errors import DeviceError, InputError, ModelError, Refusal
from fourfold.integrations.delegate import delegate_kernel, native
from fourfold.litert import GpuDelegate
from fourfold.session import Session

pytestmark = [
    pytest.mark.needs_device,
    pytest.mark.skipif(not INSTALLED, reason="no TFLite runtime is installed"),
]
LITERT = next(iter(INSTALLED), "")
IMAGE = np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
ROW = np.arange(5, dtype=np.float32)[None] + 1


def halves_model() -> bytes:
    """Return y = diagonal(x + w) * w, where an operator unpacks the constant w."""
    tensors = [
        Tensor("x", (1, 5)),
        constant("half", [0.5, 1, 2, 3, 4], "float16"),
        Tensor("w", (5,)),
        Tensor("sum", (1, 5)),
        Tensor("matrix", (1, 5, 5)),
        Tensor("y", (1, 5, 5)),
    ]
    operators = [
        Operator("DEQUANTIZE", ["half"], ["w"]),
        Operator("ADD", ["x", "w"], ["sum"], "AddOptions"),
        Operator("MATRIX_DIAG", ["sum"], ["matrix"]),
        Operator("MUL", ["matrix", "w"], ["y"], "MulOptions"),
    ]
    return write(tensors, operators, ["x"], ["y"])


def custom_model() -> bytes:
    """Return a model with a custom op that fourfold supports and no interpreter does."""
    weights = np.ones((2, 2, 2, 3), np.float32)
    tensors = [
        Tensor("x", (1, 3, 3, 3)),
        Tensor("w", weights.shape, data=weights),
        constant("b", [1.0, 2.0], "float32"),
        Tensor("y", (1, 6, 6, 2)),
    ]
    options = np.array([1, 2, 2], np.int32).tobytes()
    name = "Convolution2DTransposeBias"
    operator = Operator("CUSTOM", ["x", "w", "b"], ["y"], custom_code=name, custom_options=options)
    return write(tensors, [operator], ["x"], ["y"])


def test_an_object_that_interpreters_take() -> None:
    delegate = GpuDelegate(tiny_model())
    assert delegate._get_native_delegate_pointer() > 0
    assert delegate.claims is None
    assert delegate.precision == "fp32"


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("plain", [True, False])
def test_a_whole_model(name: str, plain: bool) -> None:
    delegate = GpuDelegate(tiny_model())
    found = run(interpreter(name, tiny_model(), delegate, plain=plain), [IMAGE])
    assert str(delegate.claims) == "4 of 4 nodes in 1 partition"
    expected = run(interpreter(name, tiny_model()), [IMAGE])
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)


def test_large_results_are_written_where_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_kernel, "MIN_DIRECT_BYTES", 1)
    asked: list[object] = []
    plain = Session.run

    def noted(session: Session, inputs: object, **more: object) -> object:
        asked.append(more.get("out"))
        return plain(session, inputs, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Session, "run", noted)
    ours = interpreter(LITERT, tiny_model(), GpuDelegate(tiny_model()))
    expected = run(interpreter(LITERT, tiny_model()), [IMAGE])
    for _ in range(2):
        np.testing.assert_allclose(run(ours, [IMAGE])[0], expected[0], atol=1e-6)
    assert all(isinstance(one, list) for one in asked)
    assert len(asked) == 2


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize(("most", "claimed"), [(1, 1), (2, 2)])
def test_a_model_in_parts(name: str, most: int, claimed: int) -> None:
    heard: list[Refusal] = []
    content = split_model()
    delegate = GpuDelegate(content, on_fallback=heard.append, max_delegated_partitions=most)
    found = run(interpreter(name, content, delegate), [ROW])
    np.testing.assert_array_equal(found[0], np.diag(ROW[0] + 1)[None] * 2)
    assert delegate.claims is not None
    assert delegate.claims.claimed == len(delegate.claims.partitions) == claimed
    assert "this operator is not supported" in {refusal.reason for refusal in heard}
    assert ("max_delegated_partitions is 1" in str(delegate.claims)) == (most == 1)


@pytest.mark.parametrize(("most", "claimed"), [(1, [(3,)]), (2, [(0, 1), (3,)])])
def test_constants_that_an_operator_unpacks_are_no_inputs(
    most: int, claimed: list[tuple[int, ...]]
) -> None:
    content = halves_model()
    delegate = GpuDelegate(content, max_delegated_partitions=most)
    found = run(interpreter(LITERT, content, delegate), [ROW])
    expected = run(interpreter(LITERT, content), [ROW])
    np.testing.assert_array_equal(found[0], expected[0])
    assert delegate.claims is not None
    assert sorted(delegate.claims.partitions) == claimed
    assert ("it only reads constants" in str(delegate.claims)) == (most == 1)


def test_an_operator_unknown_to_the_interpreter() -> None:
    content = custom_model()
    delegate = GpuDelegate(content)
    found = run(interpreter(LITERT, content, delegate), [np.ones((1, 3, 3, 3), np.float32)])
    np.testing.assert_array_equal(found[0][0, 0, 0], [4, 5])


@pytest.mark.parametrize("name", RUNTIMES)
def test_other_shapes(name: str) -> None:
    delegate = GpuDelegate(tiny_model())
    ours, theirs = interpreter(name, tiny_model(), delegate), interpreter(name, tiny_model())
    for batch in (1, 3, 2, 3):
        images = np.repeat(IMAGE, batch, axis=0) * np.arange(1, batch + 1)[:, None, None, None]
        images = images.astype(np.float32)
        found, expected = run(ours, [images]), run(theirs, [images])
        assert found[0].shape == (batch, 10)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-6)


def test_other_shapes_with_another_delegate() -> None:
    """XNNPACK runs the other nodes, and the interpreter delegates again when a shape changes."""
    options = {"first_delegate_node": 1, "last_delegate_node": 2}
    delegate = GpuDelegate(tiny_model(), **options)
    ours = interpreter(LITERT, tiny_model(), delegate, plain=False)
    theirs = interpreter(LITERT, tiny_model())
    for batch in (1, 3, 1, 2):
        images = np.repeat(IMAGE, batch, axis=0)
        np.testing.assert_allclose(run(ours, [images])[0], run(theirs, [images])[0], atol=1e-6)
    assert len(delegate._native._kernels) == 1


def test_a_state_stays_with_the_interpreter() -> None:
    """A second run continues from the state of the first, as it does without the delegate."""
    weights = np.full((2, 3), 0.5, np.float32)
    tensors = [
        Tensor("x", (1, 3)),
        Tensor("features", weights.shape, data=weights),
        Tensor("times", (2, 4), data=np.ones((2, 4), np.float32)),
        Tensor("state", (1, 8), variable=True),
        Tensor("t", (1, 2)),
        Tensor("y", (1, 2)),
    ]
    operators = [
        Operator(
            "SVDF", ["x", "features", "times", None, "state"], ["t"], "SVDFOptions", {"Rank": 1}
        ),
        Operator("TANH", ["t"], ["y"]),
    ]
    content = write(tensors, operators, ["x"], ["y"])
    delegate = GpuDelegate(content)
    both = [interpreter(LITERT, content, delegate), interpreter(LITERT, content)]
    x = np.full((1, 3), 0.1, np.float32)
    for one in both:
        run(one, [x])
        one.invoke()
    found, expected = (one.get_tensor(one.get_output_details()[0]["index"]) for one in both)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert delegate.claims is not None
    assert delegate.claims.partitions == ((1,),)
    assert "it has state" in str(delegate.claims)


def test_a_shape_that_was_there_is_still_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def spy(
        self: delegate_kernel.SessionFactory, content: bytes, shapes: dict[str, tuple[int, ...]]
    ) -> Session:
        opened.append(shapes)
        return original(self, content, shapes)

    original = delegate_kernel.SessionFactory.open
    monkeypatch.setattr(delegate_kernel.SessionFactory, "open", spy)
    ours = interpreter(LITERT, tiny_model(), GpuDelegate(tiny_model()))
    for batch in (1, 2, 1, 2):
        run(ours, [np.repeat(IMAGE, batch, axis=0)])
    assert opened == [{}, {"image": (2, 32, 32, 3)}]


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_failure_is_no_success(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    delegate = GpuDelegate(tiny_model())
    ours = interpreter(name, tiny_model(), delegate)
    run(ours, [IMAGE])
    monkeypatch.setattr(Session, "run", lambda *_, **__: 1 / 0)
    with pytest.raises(RuntimeError, match="division by zero"):
        ours.invoke()
    assert isinstance(delegate.last_error, ZeroDivisionError)
    monkeypatch.undo()
    assert len(run(ours, [IMAGE])) == 1


def test_errors_of_fourfold_are_reported_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DeviceError("100% lost", "it was unplugged", "plug it in")

    ours = interpreter(LITERT, tiny_model(), GpuDelegate(tiny_model()))
    run(ours, [IMAGE])
    monkeypatch.setattr(Session, "run", fail)
    with pytest.raises(RuntimeError, match="100% lost\n  why: it was unplugged\n  fix: plug it in"):
        ours.invoke()


def test_shapes_that_do_not_fit() -> None:
    delegate = GpuDelegate(tiny_model())
    ours = interpreter(LITERT, tiny_model(), delegate)
    ours.resize_tensor_input(0, (1, 32, 32, 5))
    with pytest.raises(RuntimeError, match="does not fit the requested shapes"):
        ours.allocate_tensors()
    assert isinstance(delegate.last_error, InputError)
    np.testing.assert_array_equal(run(ours, [IMAGE])[0].shape, (1, 10))


def test_a_device_that_fails_leaves_the_model_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DeviceError("no memory is left", "others have it", "close them")

    monkeypatch.setattr(delegate_kernel.SessionFactory, "open", fail)
    delegate = GpuDelegate(tiny_model())
    assert run(interpreter(LITERT, tiny_model(), delegate), [IMAGE])[0].shape == (1, 10)
    assert "0 of 4 nodes" in str(delegate.claims)
    assert "no memory is left: others have it" in str(delegate.claims)


def other_weights() -> bytes:
    content = bytearray(tiny_model())
    place = content.find(np.float32(1 / 7).tobytes())  # in the bias, between -1 and 1
    assert place > 0
    content[place] ^= 1
    return bytes(content)


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize(
    ("other", "why"),
    [(split_model, "tensors"), (custom_model, "tensors"), (other_weights, "other values")],
)
def test_another_model_is_left_alone(
    name: str, other: object, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(other)
    delegate = GpuDelegate(other())
    expects_warning = pytest.warns(RuntimeWarning, match="has another model than GpuDelegate")
    with caplog.at_level(logging.WARNING, "fourfold"), expects_warning:
        found = run(interpreter(name, tiny_model(), delegate), [IMAGE])
    np.testing.assert_array_equal(found[0], run(interpreter(name, tiny_model()), [IMAGE])[0])
    assert delegate.claims is None
    assert "has another model than" in str(delegate.last_error)
    assert "same file or bytes" in caplog.text


def test_tensors_of_another_size_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    stride = native.Host.tensor

    def shifted(self: native.Host, number: int) -> object:
        return stride(self, min(2 * number, self.tensors - 1))

    monkeypatch.setattr(native.Host, "tensor", shifted)
    delegate = GpuDelegate(tiny_model())
    with pytest.warns(RuntimeWarning, match="the model does not run on the GPU"):
        opened = interpreter(LITERT, tiny_model(), delegate)
    assert run(opened, [IMAGE])[0].shape == (1, 10)
    assert delegate.claims is None
    assert isinstance(delegate.last_error, InputError)


def test_the_warning_about_another_model_can_be_an_error() -> None:
    delegate = GpuDelegate(split_model())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="another model than GpuDelegate"):
            interpreter(LITERT, tiny_model(), delegate)


def test_two_threads_and_one_delegate_for_many() -> None:
    delegate = GpuDelegate(tiny_model())
    expected = run(interpreter(LITERT, tiny_model()), [IMAGE])[0]
    several = [interpreter(LITERT, tiny_model(), delegate) for _ in range(3)]
    barrier = threading.Barrier(len(several))

    def work(one: object) -> list[np.ndarray]:
        barrier.wait()
        return [run(one, [IMAGE])[0] for _ in range(20)]

    with ThreadPoolExecutor(len(several)) as pool:
        for results in pool.map(work, several):
            for found in results:
                np.testing.assert_allclose(found, expected, atol=1e-6)


def test_everything_is_freed() -> None:
    delegate = GpuDelegate(tiny_model())
    ours = interpreter(LITERT, tiny_model(), delegate)
    run(ours, [IMAGE])
    partitions = list(delegate._native._kernels.values())
    assert len(partitions) == 1
    del ours
    gc.collect()
    assert delegate._native._kernels == {}
    assert not partitions[0]._sessions


def test_the_end_of_the_process_may_come_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(tiny_model())
    lines = [
        f"from {MODULES[LITERT]} import Interpreter",
        "from fourfold.litert import GpuDelegate",
        "delegate = GpuDelegate('model.tflite')",
        "one = Interpreter('model.tflite', experimental_delegates=[delegate])",
        "two = Interpreter('model.tflite', experimental_delegates=[delegate])",
        "one.allocate_tensors(); one.invoke()",
        "cycle = [two]; cycle.append(cycle)",
        "del delegate",
        "print('done')",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    paths = os.pathsep.join([str(Path(fourfold.__file__).parents[1]), *sys.path])
    settings = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=settings, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def test_a_range_of_nodes_to_find_a_fault() -> None:
    delegate = GpuDelegate(tiny_model(), first_delegate_node=1, last_delegate_node=2)
    run(interpreter(LITERT, tiny_model(), delegate), [IMAGE])
    assert delegate.claims is not None
    assert delegate.claims.partitions == ((1, 2),)


def test_quantised_models_can_be_left_out() -> None:
    tensors = [
        Tensor("x", (1, 4), "int8", scale=[0.5], zero_point=[1]),
        Tensor("y", (1, 4), "int8", scale=[0.5], zero_point=[1]),
    ]
    content = write(tensors, [Operator("RELU", ["x"], ["y"])], ["x"], ["y"])
    x = np.array([[-128, 0, 1, 127]], np.int8)
    for allowed, count in ((True, 1), (False, 0)):
        delegate = GpuDelegate(content, quantized_models_allowed=allowed)
        found = run(interpreter(LITERT, content, delegate), [x])
        np.testing.assert_array_equal(found[0], [[1, 1, 1, 127]])
        assert found[0].dtype == np.int8
        assert delegate.claims is not None
        assert delegate.claims.claimed == count


def test_graphs_that_others_call_are_left_alone() -> None:
    def branch(name: str, op: str) -> Subgraph:
        tensors = [Tensor("a", (1, 4)), Tensor("b", (1, 4))]
        return Subgraph(tensors, [Operator(op, ["a"], ["b"])], ["a"], ["b"], name)

    tensors = [
        Tensor("flag", (), "bool"),
        Tensor("x", (1, 4)),
        Tensor("t", (1, 4)),
        Tensor("y", (1, 4)),
    ]
    choose = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}
    operators = [
        Operator("RELU", ["x"], ["t"]),
        Operator("IF", ["flag", "t"], ["y"], "IfOptions", choose),
    ]
    main = Subgraph(tensors, operators, ["flag", "x"], ["y"])
    content = write_model([main, branch("then", "TANH"), branch("else", "EXP")])
    delegate = GpuDelegate(content)
    x = np.array([[-1, 0, 1, 2]], np.float32)
    for flag, expected in ((True, np.tanh), (False, np.exp)):
        found = run(interpreter(LITERT, content, delegate), [np.array(flag), x])
        np.testing.assert_allclose(found[0], expected(np.maximum(x, 0)), atol=1e-6)
    assert delegate.claims is not None
    assert delegate.claims.partitions == ((0,),)


def test_inputs_that_are_nothing_for_a_gpu() -> None:
    tensors = [Tensor("x", (2,), "str"), Tensor("y", (1,), "int32")]
    shape = Operator("SHAPE", ["x"], ["y"], "ShapeOptions", {"OutType": 2})
    content = write(tensors, [shape], ["x"], ["y"])
    delegate = GpuDelegate(content)
    made = interpreter(LITERT, content, delegate)
    made.allocate_tensors()
    made.invoke()
    assert made.get_tensor(1).tolist() == [2]
    assert delegate.last_error is None
    assert "SHAPE 'y': 'x' holds string values" in str(delegate.claims)


def test_text_stays_with_the_interpreter() -> None:
    texts = np.frombuffer(b"\1\0\0\0\x0c\0\0\0\x0f\0\0\0yes", np.uint8)
    tensors = [
        Tensor("words", (3,), "str"),
        Tensor("key", (1,), "str", data=texts),
        Tensor("same", (3,), "bool"),
        Tensor("number", (3,)),
        Tensor("y", (3,)),
    ]
    operators = [
        Operator("EQUAL", ["words", "key"], ["same"], "EqualOptions"),
        Operator("CAST", ["same"], ["number"], "CastOptions", {"InDataType": 6, "OutDataType": 0}),
        Operator("EXP", ["number"], ["y"]),
    ]
    content = write(tensors, operators, ["words"], ["y"])
    delegate = GpuDelegate(content)
    made = interpreter(LITERT, content, delegate)
    made.allocate_tensors()
    made.set_tensor(0, np.array(["yes", "no", "yes"]))
    made.invoke()
    np.testing.assert_allclose(made.get_tensor(4), np.exp([1, 0, 1]), rtol=1e-5)
    assert "2 of 3 nodes in 1 partition" in str(delegate.claims)


def other_wires() -> bytes:
    tensors = [Tensor("x", (1, 4)), Tensor("a", (1, 4)), Tensor("b", (1, 4)), Tensor("y", (1, 4))]
    first, second = Operator("RELU", ["x"], ["a"]), Operator("RELU", ["x"], ["b"])
    return write(tensors, [first, second, Operator("ABS", ["b"], ["y"])], ["x"], ["y"])


def test_a_graph_with_other_wires() -> None:
    tensors = [Tensor("x", (1, 4)), Tensor("a", (1, 4)), Tensor("b", (1, 4)), Tensor("y", (1, 4))]
    first, second = Operator("RELU", ["x"], ["a"]), Operator("RELU", ["a"], ["b"])
    content = write(tensors, [first, second, Operator("ABS", ["b"], ["y"])], ["x"], ["y"])
    delegate = GpuDelegate(other_wires())
    with pytest.warns(RuntimeWarning, match="has another model than GpuDelegate"):
        interpreter(LITERT, content, delegate).allocate_tensors()
    assert "its node 1, RELU, has other inputs or outputs" in str(delegate.last_error)


def test_sizes_that_the_values_decide() -> None:
    """If a shape is an input of the model, sizes of later values are known only at run time."""
    tensors = [
        Tensor("x", (1, 4)),
        Tensor("shape", (2,), "int32"),
        Tensor("t", (1, 4)),
        Tensor("r", (1, 4), signature=(-1, -1)),
        Tensor("y", (1, 4), signature=(-1, -1)),
    ]
    operators = [
        Operator("RELU", ["x"], ["t"]),
        Operator("RESHAPE", ["t", "shape"], ["r"]),
        Operator("ABS", ["r"], ["y"]),
    ]
    content = write(tensors, operators, ["x", "shape"], ["y"])
    delegate = GpuDelegate(content, max_delegated_partitions=4)
    x = np.array([[-1, 0, 1, 2]], np.float32)
    for shape in ((2, 2), (4, 1)):
        ours = interpreter(LITERT, content, delegate)
        found = run(ours, [x, np.array(shape, np.int32)])
        np.testing.assert_array_equal(found[0], np.maximum(x, 0).reshape(shape))
    assert delegate.claims is not None
    assert delegate.claims.partitions == ((0,),)


def test_a_second_delegate_uses_the_cache(tmp_path: Path) -> None:
    options = {"serialization_dir": tmp_path, "model_token": "tiny"}
    for hit in (False, True):
        delegate = GpuDelegate(tiny_model(), **options)
        ours = interpreter(LITERT, tiny_model(), delegate)
        run(ours, [IMAGE])
        (one,) = delegate._native._kernels.values()
        assert one._session is not None
        assert one._session.hit == hit


def test_inference_preference_balanced(tmp_path: Path) -> None:
    options = {"serialization_dir": tmp_path, "inference_preference": "balanced"}
    delegate = GpuDelegate(tiny_model(), **options)
    found = run(interpreter(LITERT, tiny_model(), delegate), [IMAGE])
    np.testing.assert_allclose(
        found[0], run(interpreter(LITERT, tiny_model()), [IMAGE])[0], atol=1e-6
    )
    assert any(tmp_path.iterdir())


def test_rejects_invalid_models_and_options() -> None:
    with pytest.raises(ModelError, match="is not a model"):
        GpuDelegate(b"<html>")
    with pytest.raises(TypeError, match="unexpected keyword argument 'precision_los_allowed'"):
        GpuDelegate(tiny_model(), precision_los_allowed=True)
