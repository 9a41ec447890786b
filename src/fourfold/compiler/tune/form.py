"""Times one launch against several, for the whole plan, once its kernels are chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import median

from fourfold.backends import ConnectionLost, Player, make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.one_launch import form_key
from fourfold.compiler.tune.race import Result
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.graph import Graph
from fourfold.support.log import Log

log = Log("compiler.tune")
WARM_UP_RUNS = 3

FORMS = ("list", "one")  # forms of a plan: several launches, or one


def race_forms(
    graph: Graph,
    device: DeviceInfo,
    options: KernelOptions,
    choices: Mapping[str, str],
    settled: Collection[str],
    runs: int,
) -> tuple[str, Result] | None:
    """Return the key of the whole plan and the faster form.

    None if there is nothing to choose, or if the key is settled.
    """
    listed = make_plan(graph, device, replace(options, form="list"), choices)
    joined = make_plan(graph, device, replace(options, form="one"), choices)
    if options.form != "auto" or len(listed.launches) == len(joined.launches):
        return None
    if form_key(listed.launches) in settled:
        return None
    players: dict[str, Player] = {}
    times: dict[str, list[float]] = {"list": [], "one": []}
    try:
        for name, plan in (("list", listed), ("one", joined)):
            players[name] = make_player(device, plan)
        for number in range(WARM_UP_RUNS + runs):
            for name, player in players.items():
                seconds = player.replay_seconds(1)
                times[name] += seconds if number >= WARM_UP_RUNS else ()
    except ConnectionLost:
        raise
    except FourfoldError as error:  # the device does not support both forms
        log.debug("one launch and several cannot be compared: %s: %s", error.what, error.why)
        return None
    finally:
        for player in players.values():
            player.close()
    middle = {name: median(values) for name, values in times.items()}
    best = min(middle, key=lambda name: middle[name])
    return form_key(listed.launches), Result(best, middle[best], middle["list"], len(players))
