"""Artificial run records: small, deterministic, and with hostile names."""

from __future__ import annotations

from dataclasses import replace

from fourfold.tools.report.run_report.layout import layered_layout
from fourfold.tools.report.run_report.record import (
    VERSION,
    AccuracySummary,
    AdviceItem,
    DeviceCeilings,
    NodeTuning,
    RunArena,
    RunEdge,
    RunKernel,
    RunMemory,
    RunNode,
    RunOperator,
    RunPart,
    RunRecord,
    RunSpan,
    RunSubject,
    RunTensor,
    RunTimes,
    TimedCandidate,
    ValueAccuracy,
)

HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
OPS = ("input", "conv2d + relu6", "depthwise_conv2d", "conv2d", "softmax", "output")
SECONDS = (None, 40e-6, 10e-6, 25e-6, None, None)


def make_record(scale: float = 1.0) -> RunRecord:
    """Return the record of three kernels on a device and one operator on the CPU, with scaled
    times.
    """
    return RunRecord(
        version=VERSION,
        subject=_subject(),
        times=RunTimes(1e-4 * scale, 9e-5 * scale, 1.2e-4 * scale, 50, 5e-6, 7.5e-5, 5e-6, 1e-5),
        start=(("device", 0.1), ("read", 0.02), ("lower", 0.3), ("build", 1.2)),
        summary="3 of 4 operators run on a device",
        parts=(RunPart("GPU", 3, 8e-5, 1e-6), RunPart("CPU (LiteRT)", 1, 1e-6, 1e-6)),
        nodes=tuple(_nodes(scale)),
        edges=tuple(_edges()),
        kernels=tuple(
            RunKernel(f"kernel_{at}", at, (64, 2), (8, 1), 4096, 1024, "text", SECONDS[at] * scale)
            for at in (1, 2, 3)
        ),
        texts={
            "text": f"// {HOSTILE}\n__kernel void kernel_1(__global float *x) {{ x[0] = 1.0f; }}"
        },
        launches=3,
        form="launches",
        ceilings=DeviceCeilings(100e9, 20e9, 60e9),
        memory=RunMemory(4096, 3072, 256, 64, 0, (_arena(),)),
        advice=(AdviceItem("moves", ("layer 2",), 1e-6, "transpose costs a kernel"),),
        accuracy=AccuracySummary("LiteRT", False, ("conv2d", "layer 3", "kernel"), 3, 2, ()),
        notes=("A note.",),
    )


def _subject() -> RunSubject:
    return RunSubject(
        model=f"model{HOSTILE}.tflite",
        model_bytes=1000,
        fourfold="0.1.0",
        made="2026-01-02T03:04:05+0000",
        device="a device",
        device_kind="GPU by OpenCL",
        driver="1.2",
        api="opencl",
        precision="fp32",
        placement="auto",
        origin="model",
        inputs=("image: float32[1, 4, 4, 3]",),
        outputs=("scores: float32[1, 4]",),
        data="random numbers, seed 0",
    )


def _pairs() -> list[tuple[int, int]]:
    return [(0, 1), (1, 2), (2, 3), (1, 3), (3, 4), (4, 5)]


def _edges() -> list[RunEdge]:
    layout = layered_layout([150.0] * len(OPS), _pairs())
    return [
        RunEdge(*pair, f"value {pair[0]}", "f32[1,4,4,8]", points)
        for pair, points in zip(_pairs(), layout.edges, strict=True)
    ]


def _nodes(scale: float) -> list[RunNode]:
    layout = layered_layout([150.0] * len(OPS), _pairs())
    targets = ("input", "gpu", "gpu", "gpu", "litert", "output")
    nodes = []
    for at, (op, target, seconds) in enumerate(zip(OPS, targets, SECONDS, strict=True)):
        name = f"layer {at}" if at != 2 else f"layer 2{HOSTILE}"
        reads = tuple(RunTensor(f"value {a}", "f32[1,4,4,8]") for a, b in _pairs() if b == at)
        writes = (RunTensor(f"value {at}", "f32[1,4,4,8]"),)
        node = RunNode(name, op, "", target, int(at == 4), *layout.nodes[at], 150.0)
        node = replace(node, reads=reads, writes=() if target == "output" else writes)
        if seconds is not None:
            node = replace(
                node, kernels=(at - 1,), seconds=seconds * scale, flops=2e6, bytes=40_960
            )
            node = replace(node, tuning=NodeTuning("tiled: default", False, 8, 3e-5, _candidates()))
            node = replace(node, attributes=(("stride", "(1, 1)"),), accuracy=_accuracy(at))
        elif target == "litert":
            reason = "softmax has no kernel here"
            node = replace(node, operators=(RunOperator(name, "SOFTMAX", target, reason, 1e-6),))
        nodes.append(node)
    return nodes


def _candidates() -> tuple[TimedCandidate, ...]:
    return (TimedCandidate("rows: 4", 2e-5), TimedCandidate("tiled: default", 3e-5))


def _accuracy(at: int) -> ValueAccuracy:
    agrees = at != 3
    return ValueAccuracy(
        1e-6 if agrees else None, 1e-7, 1e-4, "agrees" if agrees else "kernel", agrees
    )


def _arena() -> RunArena:
    spans = (RunSpan("value 1", 0, 2048, 0, 2), RunSpan("value 2", 2048, 1024, 1, 2))
    return RunArena(0, 3072, 3, spans)
