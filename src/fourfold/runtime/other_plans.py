"""OtherPlans: other plans of a session's model, for profiling and tracing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from fourfold import backends
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import CompiledModel, Plan
from fourfold.runtime.loading import compile_request, tuned_choices
from fourfold.runtime.request import Request
from fourfold.support.log import Log
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    from fourfold.store.store import Store

log = Log("runtime")


class OtherPlans(NamedTuple):
    """The compiled model of a session, and what it was compiled from."""

    model: CompiledModel
    request: Request
    store: Store | None
    origin: str

    @property
    def can_be_made(self) -> bool:
        """True if the model is one launch and its source is available for compiling again."""
        model = self.model
        return model.is_whole and model.stages > len(model.launches) and self.origin != "file"

    def with_clocks(self) -> Plan | None:
        """Return the plan with clocks in its stages; None if that is not possible."""
        if not self.can_be_made or self.request.device.remote:
            return None
        plan = self._plan(clocked=True)
        return None if plan.clocks is None else plan

    def _plan(self, **changed: Any) -> Plan:
        options = replace(self.request.compile_options, **changed)
        request = self.request._replace(compile_options=options, timings=Timings())
        return compile_request(request, tuned_choices(request.device, self.store)).plan

    def clocked_player(self) -> backends.Player | None:
        """Return a player of the plan with clocks; None if the device cannot compile it."""
        plan = self.with_clocks()
        if plan is None:
            return None
        device = backends.with_run_facts(self.request.device, self.store)
        try:
            return backends.backend_of(device).make_clocked_player(device, plan)
        except (BuildError, DeviceError) as error:
            log.warn_once(f"cannot time the stages of one launch: {error.what}: {error.why}")
            return None

    def list_player(self) -> backends.Player:
        """Return a player with one launch per kernel."""
        plan = self._plan(launches="list")
        return backends.make_player(self.request.device, plan, store=self.store)
