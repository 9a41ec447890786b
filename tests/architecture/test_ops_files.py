"""Each op has a file of its own that is named like the op and contains its test cases."""

from __future__ import annotations

import pytest
from architecture.source import PACKAGE, modules

from fourfold.ops.base import Case, Op, registry
from fourfold.types import TensorType

FOLDER = PACKAGE / "ops"
DEFINED_ELSEWHERE = {"custom", "foreign"}  # by the caller, so there is nothing to test
FILES = sorted(
    path.stem
    for path in FOLDER.iterdir()
    if not path.name.startswith(("_", ".")) and path.suffix == ".py"
)


def test_registry_lists_every_op_file() -> None:
    assert sorted(registry()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_op_is_named_like_its_file(name: str) -> None:
    op = registry()[name]
    assert isinstance(op, Op)
    assert op.name == name


@pytest.mark.parametrize("name", FILES)
def test_op_has_valid_cases(name: str) -> None:
    op = registry()[name]
    assert op.cases or name in DEFINED_ELSEWHERE
    for case in op.cases:
        assert isinstance(case, Case)
        for text in case.inputs:
            assert text is None or str(TensorType.parse(text)) == text.replace(" ", "")
        assert isinstance(case.attributes, op.attributes)
        assert all(0 <= index < len(case.inputs) for index in case.constants)


@pytest.mark.parametrize("name", FILES)
def test_variants_of_an_op_have_unique_names(name: str) -> None:
    names = [variant.name for variant in registry()[name].variants]
    assert len(names) == len(set(names))


def test_no_op_imports_another() -> None:
    violations = [
        f"{module.path} imports fourfold.ops.{name}"
        for module in modules()
        if module.path.startswith("ops/") and module.path != "ops/__init__.py"
        for name in FILES
        if module.path != f"ops/{name}.py"
        and (
            f"from fourfold.ops.{name} import" in module.text
            or f"import fourfold.ops.{name}\n" in module.text
        )
    ]
    assert not violations, "\n".join(violations)
