"""Text and HTML descriptions of a session, available at any time, also after `close`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.open_instance import OpenInstance
from fourfold.runtime.opened import ORIGINS, device_text
from fourfold.runtime.request import Request
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.support.display import count_text, html_table, size_text, time_text

MAX_PORTS_SHOWN = 3  # inputs or outputs in the one-line form


def model_name(request: Request) -> str:
    """Return the name of the model's file, or its own in a prepared file; '' for one in memory."""
    if isinstance(request.model, bytes):
        return ""
    if is_prepared(request.model):
        prepared = Prepared.open(request.model)
        return prepared.models[prepared.choose_model(request.name)]
    return os.path.basename(os.path.normpath(request.model))


def session_line(instance: ModelInstance | OpenInstance, closed: bool) -> str:
    state = "closed, " if closed else ""
    where = f"{device_text(instance.request.device)}, {instance.request.compile_options.precision}"
    if not isinstance(instance, ModelInstance):
        ports = _ports_text(instance.inputs)
        return f"<Session {instance.request.title}: {state}{where}; {ports}; not compiled yet>"
    ports = f"{_ports_text(instance.inputs)} -> {_ports_text(instance.outputs)}"
    return f"<Session {instance.request.title}: {state}{where}; {ports}>"


def session_html(instance: ModelInstance | OpenInstance, closed: bool) -> str:
    title = f"Session of {instance.request.title}{' (closed)' if closed else ''}"
    return html_table(title, (), _rows(instance))


def _rows(instance: ModelInstance | OpenInstance) -> Iterator[Sequence[str]]:
    yield "device", device_text(instance.request.device)
    if not isinstance(instance, ModelInstance):
        yield "compiled", "at the first run: sizes of inputs are open"
        yield from (("input", f"{port.name}: {port.type_text}") for port in instance.inputs)
        return
    model = instance.model
    yield "precision", model.precision
    yield "opened from", ORIGINS[instance.origin]
    yield "runs", instance.placement.summary if instance.in_parts else "all on the device"
    launches = count_text(len(model.launches), "launch", "launches")
    yield "plan", f"{count_text(model.stages, 'kernel')} in {launches}"
    yield "memory", f"{size_text(model.device_bytes)} on the device"
    for name, ports in (("input", instance.inputs), ("output", instance.outputs)):
        for port in ports:
            yield name, f"{port.name}: {port.type_text}"
    took = instance.request.timings.items()
    yield "start", ", ".join(f"{name} {time_text(seconds)}" for name, seconds in took)


def _ports_text(ports: Sequence[TensorInfo]) -> str:
    more = f" and {len(ports) - MAX_PORTS_SHOWN} more" if len(ports) > MAX_PORTS_SHOWN else ""
    return ", ".join(f"{port.name} {port.type_text}" for port in ports[:MAX_PORTS_SHOWN]) + more
