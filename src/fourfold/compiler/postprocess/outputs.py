"""Find boxes and scores among a detector's outputs, by name or by shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fourfold.compiler.postprocess.grown_graph import GrownGraph
from fourfold.errors import InputError, nearest
from fourfold.types import Shape

Fits = Callable[[Shape], bool]


class DetectorOutputs:
    """A detector's outputs by name, converted to floats on request."""

    def __init__(self, grown: GrownGraph, values: Mapping[str, str], option: str) -> None:
        self._grown, self._values, self._option = grown, values, option
        self.taken: dict[str, None] = {}  # names of the outputs used so far

    def all(self, fits: Fits) -> list[str]:
        """Return the names of all outputs whose shape fits."""
        return [name for name, value in self._values.items() if fits(self._grown.shape(value))]

    def find(self, role: str, name: str | None, shape: str, fits: Fits) -> str:
        """Return an output as floats: the one of this name, or the only one whose shape fits.

        `name` is None for options that have no field for names.
        """
        if name:
            self._require_known(name)
            if not fits(self._grown.shape(self._values[name])):
                raise self._misfit(f"output {name!r} holds no {role}", shape, "")
            return self.take(name)
        candidates = [one for one in self.all(fits) if one not in self.taken]
        if len(candidates) != 1:
            count = "no output" if not candidates else f"{len(candidates)} outputs"
            first = next(iter(self._values), "name")
            remedy = f"a dict by name: postprocess={{{first!r}: {self._option}(...)}}"
            remedy = remedy if name is None else f"{role}= with its name"
            raise self._misfit(
                f"{count} of the model could be the {role}", shape, f"pass {remedy}, or "
            )
        return self.take(candidates[0])

    def take(self, name: str) -> str:
        self.taken[name] = None
        return self._grown.real(self._values[name], name)

    def _require_known(self, name: str) -> None:
        if name not in self._values:
            what, why = f"the model has no output {name!r}", f"its outputs are {[*self._values]}"
            raise InputError(what, why, nearest(name, self._values))

    def _misfit(self, what: str, shape: str, remedy: str) -> InputError:
        types = (f"{name}: {self._grown.type(value)}" for name, value in self._values.items())
        why = f"{self._option} takes {shape}, and the outputs are {', '.join(types)}"
        fix = f"{remedy}use another post-processing, or check how the model was exported"
        return InputError(what, why, fix)
