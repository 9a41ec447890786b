"""The plan of a prepared file that a device would play, found without playing it."""

from __future__ import annotations

from typing import Any, NamedTuple

from fourfold.backends import backend_of
from fourfold.backends.null import NULL_GPU
from fourfold.errors import InputError
from fourfold.plan import Plan
from fourfold.plan.placement import Placement
from fourfold.runtime.loading import find_row
from fourfold.runtime.request import Request
from fourfold.store.prepared import Prepared, is_for
from fourfold.store.store import Store
from fourfold.support.display import count_text


class PreparedPlan(NamedTuple):
    """The plan that a device gets. A model in parts has several `plans`, and `placement` says which
    part runs where.
    """

    model: str
    made_for: str
    fits_device: bool  # whether it was made for this very device
    has_binaries: bool  # False: kernels are built from text
    precision: str
    plans: tuple[Plan, ...]
    placement: Placement

    @property
    def launches(self) -> int:
        return sum(len(plan.launches) for plan in self.plans)

    @property
    def summary(self) -> str:
        """One line: the model, the precision, the launches and the device it was prepared for."""
        launches = count_text(self.launches, "launch", "launches")
        this = ", this very device" if self.fits_device else ""
        return f"{self.model} in {self.precision}, {launches}, prepared for {self.made_for}{this}"

    def stage_text(self, stage: str) -> str:
        """Return the plans, or the text of the kernels."""
        if stage not in ("plan", "kernels"):
            what = f"a prepared file has no stage '{stage}'"
            why = "it holds plans and kernels, but not the graph that they were made from"
            raise InputError(what, why, "use --stage plan or kernels, or pass the model itself")
        texts = [str(plan) if stage == "plan" else plan.program.text for plan in self.plans]
        return "\n".join(texts)

    def to_json(self) -> dict[str, Any]:
        """Return everything except the plans as plain data."""
        fields = self._asdict()
        del fields["plans"]
        return {**fields, "launches": self.launches, "placement": self.placement.to_json()}


def find_prepared_plan(request: Request, store: Store | None) -> PreparedPlan:
    """Return the plan that a session on the request's device would play."""
    prepared = Prepared.open(request.model, request.config.trust)
    device = request.device
    row = find_row(request, prepared, store)
    model = prepared.model(row)
    placement = Placement.from_bytes(model.placement)
    plans = model.plans
    needs_none = device.name == NULL_GPU.name or not backend_of(device).has_binaries
    built = all(prepared.binary_for(plan.program, device) is not None for plan in plans)
    return PreparedPlan(
        model=prepared.models[row["model"]],
        made_for=str(row["made_for"]["name"]),
        fits_device=is_for(row, device),
        has_binaries=not needs_none and built,
        precision=str(row["precision"]),
        plans=plans,
        placement=placement,
    )
