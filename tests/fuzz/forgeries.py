"""Try forged answers of remote devices and forged prepared files by the thousands.

Any exception but a FourfoldError is a finding. A case is reproducible by its kind and number.

Usage: PYTHONPATH=src:tests python -m fuzz.forgeries --cases 2000
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fuzz.forged_files import inspect_forged, open_forged
from fuzz.remote_answers import try_remote

KINDS: Mapping[str, Callable[[int], str]] = {
    "remote": try_remote,
    "inspect": inspect_forged,
    "open": open_forged,
}


def try_all(kind: str, numbers: Sequence[int]) -> tuple[Counter[str], dict[str, int]]:
    """Return the number of cases by result, and the first case of every finding."""
    results: Counter[str] = Counter()
    findings: dict[str, int] = {}
    for number in numbers:
        try:
            results[KINDS[kind](number)] += 1
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            results["found"] += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {place.name}, {place.filename}:{place.lineno}"
            findings.setdefault(what, number)
    return results, findings


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("fuzz.forgeries", description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=2000, help="number of cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", help="repeat one case, as KIND:NUMBER, and show its error")
    inputs = parser.parse_args(words)
    if inputs.case is not None:
        kind, _, number = inputs.case.partition(":")
        print(KINDS[kind](int(number)))
        return 0
    count = 0
    for kind in KINDS:
        results, findings = try_all(kind, range(inputs.first, inputs.first + inputs.cases))
        print(f"{kind}: {', '.join(f'{n} {name}' for name, n in sorted(results.items()))}")
        for what, number in findings.items():
            print(f"    {what}; again with --case {kind}:{number}")
        count += len(findings)
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
