"""Tuned choices that record which of them a plan looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class RecordedChoices(Mapping[str, str]):
    """Tuned choices that record each lookup: a plan depends only on the choices that it
    looked up.
    """

    def __init__(self, choices: Mapping[str, str]) -> None:
        self._choices = choices
        self.answers: dict[str, str | None] = {}

    def __getitem__(self, key: str) -> str:
        self.answers[key] = self._choices.get(key)
        return self._choices[key]

    def __iter__(self) -> Iterator[str]:
        self.answers.update(self._choices)
        return iter(self._choices)

    def __len__(self) -> int:
        return max(len(self._choices), 1)  # always truthy, so that `choices or {}` keeps it
