"""Module-level locks are released in a forked child, no matter which thread held them."""

from __future__ import annotations

import ast

from architecture.source import modules

LOCK_TYPES = {"Lock", "RLock", "Condition", "Semaphore"}
# A child must not call a driver that its parent initialized, and only driver calls take these.
DRIVERS = "backends/opencl/"


def test_module_level_locks_are_fork_safe() -> None:
    violations = [
        f"{module.at(node)}: use ForkSafeLock, see forks.py"
        for module in modules()
        if not module.path.startswith(DRIVERS)
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        if getattr(node.value.func, "attr", getattr(node.value.func, "id", "")) in LOCK_TYPES
    ]
    assert not violations, "\n".join(violations)
