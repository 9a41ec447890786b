"""The launches of a plan as a graph, for a prepared file, which holds nothing else of a model."""

from __future__ import annotations

from fourfold.plan import CompiledModel
from fourfold.plan.targets import GPU
from fourfold.tools.report.run_report.graph_nodes import RunGraph, node_width
from fourfold.tools.report.run_report.layout import layered_layout
from fourfold.tools.report.run_report.measured import KernelTimes
from fourfold.tools.report.run_report.record import RunEdge, RunKernel, RunNode


def graph_of_plan(model: CompiledModel, times: KernelTimes) -> RunGraph:
    """Return a graph with a node for each launch, in a row."""
    text = "\n".join(plan.program.text for plan in model.plans)
    built = RunGraph(texts={"program": text}, form=times.form)
    width = node_width(max((launch.title for launch in model.launches), key=len, default=""))
    pairs = [(number, number + 1) for number in range(len(model.launches) - 1)]
    layout = layered_layout([width] * len(model.launches), pairs)
    for number, launch in enumerate(model.launches):
        time = times.take(launch.node)
        seconds = None if time is None else time.seconds
        x, y = layout.nodes[number]
        built.nodes.append(
            RunNode(
                name=launch.node,
                op=launch.title,
                text=launch.node,
                target=GPU,
                part=0,
                x=x,
                y=y,
                width=width,
                kernels=(number,),
                seconds=seconds,
            )
        )
        built.kernels.append(
            RunKernel(
                entry=launch.entry,
                node=number,
                grid=launch.grid,
                local=launch.local,
                bytes_read=0,
                bytes_written=0,
                text="program",
                seconds=seconds,
            )
        )
    built.edges = [
        RunEdge(source, target, "", "", points)
        for (source, target), points in zip(pairs, layout.edges, strict=True)
    ]
    return built
