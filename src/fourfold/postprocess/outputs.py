"""Which outputs of a detector are boxes, and which scores: by name, or by their shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fourfold.errors import InputError, nearest
from fourfold.postprocess.grown_graph import GrownGraph
from fourfold.types import Shape

Fits = Callable[[Shape], bool]


class DetectorOutputs:
    """A detector's outputs by name, as floats where they are asked for."""

    def __init__(self, grown: GrownGraph, values: Mapping[str, str], option: str) -> None:
        self._grown, self._values, self._option = grown, values, option
        self.taken: dict[str, None] = {}  # the names of those that were asked for

    def all(self, fits: Fits) -> list[str]:
        """The names of all outputs of such a shape."""
        return [name for name, value in self._values.items() if fits(self._grown.shape(value))]

    def find(self, role: str, given: str | None, shape: str, fits: Fits) -> str:
        """An output as floats: that of the name that was given, or the only one that fits. Where
        an option has no field for names, None is given.
        """
        if given:
            self._require_known(given)
            if not fits(self._grown.shape(self._values[given])):
                raise self._misfit(f"output {given!r} holds no {role}", shape, "")
            return self.take(given)
        found = [name for name in self.all(fits) if name not in self.taken]
        if len(found) != 1:
            count = "no output" if not found else f"{len(found)} outputs"
            name = next(iter(self._values), "name")
            way = f"a dict by name: postprocess={{{name!r}: {self._option}(...)}}"
            way = way if given is None else f"{role}= with its name"
            raise self._misfit(
                f"{count} of the model could be the {role}", shape, f"pass {way}, or "
            )
        return self.take(found[0])

    def take(self, name: str) -> str:
        self.taken[name] = None
        return self._grown.real(self._values[name], name)

    def _require_known(self, name: str) -> None:
        if name not in self._values:
            what, why = f"the model has no output {name!r}", f"its outputs are {[*self._values]}"
            raise InputError(what, why, nearest(name, self._values))

    def _misfit(self, what: str, shape: str, way: str) -> InputError:
        types = (f"{name}: {self._grown.type(value)}" for name, value in self._values.items())
        why = f"{self._option} takes {shape}, and there are {', '.join(types)}"
        fix = f"{way}use another post-processing, or check how the model was exported"
        return InputError(what, why, fix)
