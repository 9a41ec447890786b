"""Another API of the same GPU, for a model that its preferred API cannot open."""

from __future__ import annotations

from fourfold import backends
from fourfold.device import DeviceInfo
from fourfold.runtime.request import Request
from fourfold.store.prepared import Prepared, is_prepared, languages_of


def other_device(request: Request, selection: object) -> DeviceInfo | None:
    """Return the same GPU in another API that can open the model. None if the caller selected the
    API, or if no other API would succeed.
    """
    if backends.names_api(selection):
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
    """Return whether a plan in the device's language is possible: a prepared file has only some
    languages.
    """
    if not is_prepared(request.model):
        return True
    return device.language in languages_of(Prepared.open(request.model, request.config.trust))
