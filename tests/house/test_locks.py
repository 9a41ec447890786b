"""Locks of modules are open in a forked child, whoever held them in the parent."""

from __future__ import annotations

import ast

from house.source import modules

PLAIN = {"Lock", "RLock", "Condition", "Semaphore"}
# A child may not call a driver that its parent called, and nobody else takes these.
DRIVERS = "backends/opencl/"


def test_no_lock_of_a_module_stays_locked_after_a_fork() -> None:
    wrong = [
        f"{module.at(node)}: make it a ForkSafeLock, see forks.py"
        for module in modules()
        if not module.path.startswith(DRIVERS)
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        if getattr(node.value.func, "attr", getattr(node.value.func, "id", "")) in PLAIN
    ]
    assert not wrong, "\n".join(wrong)
