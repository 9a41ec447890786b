"""The same GPU by another API: for a model that its best API cannot open."""

from __future__ import annotations

from fourfold import backends
from fourfold.device import DeviceInfo
from fourfold.runtime.request import Request
from fourfold.store.prepared import Prepared, is_prepared, languages_of


def other_device(request: Request, wanted: object) -> DeviceInfo | None:
    """Where to open a model that could not be opened on its device: None where a caller said by
    which API, or where another one would fail for the same reason.
    """
    if backends.names_api(wanted):
        return None
    device = request.device
    lacks_plan = not _has_plan(request, device)
    if not lacks_plan and backends.find_compiler_problem(device) is None:
        return None
    able = (one for one in backends.same_gpu_in_other_apis(device) if _can_open(request, one))
    return next(able, None)


def _can_open(request: Request, device: DeviceInfo) -> bool:
    return _has_plan(request, device) and backends.find_compiler_problem(device) is None


def _has_plan(request: Request, device: DeviceInfo) -> bool:
    """Whether there can be a plan in a device's language: a prepared file has what it has."""
    if not is_prepared(request.model):
        return True
    return device.language in languages_of(Prepared.open(request.model))
