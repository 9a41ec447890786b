"""fourfold itself, through Session."""

from __future__ import annotations

import fourfold
from peers import Opened, Task


def open_peer(task: Task) -> Opened:
    session = fourfold.Session(
        task.model, device=task.device, precision=task.precision, shapes=task.shapes
    )
    arrays, plan, player = task.arrays(), session.plan, session._instance.player
    facts = {
        "launches": len(plan.launches),
        "stages": plan.stages,
        "precision": plan.precision,
    }
    device = player.replay if hasattr(player, "replay") else None
    return Opened(lambda: list(session.run(arrays).values()), device=device, facts=facts)
