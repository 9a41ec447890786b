"""OtherPlans: the model of a session planned in another form, to look into what it plays."""

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
        """Whether the model is one launch, and its source is at hand to compile it again."""
        model = self.model
        return model.is_whole and model.stages > len(model.launches) and self.origin != "file"

    def with_clocks(self) -> Plan | None:
        """The plan with clocks in its stages; None where that cannot be."""
        if not self.can_be_made or self.request.device.remote:
            return None
        plan = self._plan(clocked=True)
        return None if plan.clocks is None else plan

    def _plan(self, **changed: Any) -> Plan:
        options = replace(self.request.compile_options, **changed)
        request = self.request._replace(compile_options=options, timings=Timings())
        return compile_request(request, tuned_choices(request.device, self.store)).plan

    def clocked_player(self) -> backends.Player | None:
        """A player of the plan with clocks; None where the device does not build it."""
        plan = self.with_clocks()
        if plan is None:
            return None
        device = backends.with_run_facts(self.request.device, self.store)
        try:
            return backends.backend_of(device).make_clocked_player(device, plan)
        except (BuildError, DeviceError) as error:
            log.warn_once(f"no stage is timed inside one launch: {error.what}: {error.why}")
            return None

    def list_player(self) -> backends.Player:
        """A player with a launch for each kernel."""
        plan = self._plan(launches="list")
        return backends.make_player(self.request.device, plan, store=self.store)
