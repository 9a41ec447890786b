"""Profile: how long each launch of a run takes, as a list that shows its longest ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fourfold.display import count_text, html_table, time_text

if TYPE_CHECKING:
    from fourfold.runtime.instance import KernelTime

SHOWN = 5  # at a prompt; a notebook has room for all


class Profile(list["KernelTime"]):
    """The times of all launches, in the order in which they run."""

    @property
    def seconds(self) -> float:
        """All of them together."""
        return sum(one.seconds for one in self)

    @property
    def longest(self) -> list[KernelTime]:
        """The same, those that take longest first."""
        return sorted(self, key=lambda one: one.seconds, reverse=True)

    @property
    def summary(self) -> str:
        return f"{count_text(len(self), 'launch', 'launches')}, {time_text(self.seconds)} in all"

    def share(self, one: KernelTime) -> str:
        """The part of all time that one launch takes."""
        return f"{one.seconds / (self.seconds or 1.0):.1%}"

    def __repr__(self) -> str:
        longest = (
            f"  {time_text(one.seconds):>10} {self.share(one):>6}  {one.kernel}"
            for one in self.longest[:SHOWN]
        )
        more = (f"  and {len(self) - SHOWN} more",) if len(self) > SHOWN else ()
        return "\n".join((f"<Profile: {self.summary}>", *longest, *more))

    def _repr_html_(self) -> str:
        rows = [
            (time_text(one.seconds), self.share(one), one.kernel, one.node) for one in self.longest
        ]
        return html_table(self.summary, (">time", ">share", "kernel", "node"), rows)
