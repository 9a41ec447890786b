"""ONNX Runtime on the CPU."""

from __future__ import annotations

from peers import Missing, Opened, Task, planes
from peers.onnx_file import onnx_bytes


def open_peer(task: Task) -> Opened:
    try:
        import onnxruntime
    except ImportError as error:
        raise Missing("onnxruntime is not installed") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.threads
    file = onnx_bytes(task.graph)
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    feed = dict(zip(names, map(planes, task.arrays()), strict=True))
    return Opened(lambda: session.run(None, feed), planes=True)
