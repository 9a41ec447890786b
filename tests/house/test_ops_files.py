"""One op a file: each has its name, its cases, and a first sentence that says what it does."""

from __future__ import annotations

import pytest
from house.source import PACKAGE, modules

from fourfold.ops.base import Case, Op, registry
from fourfold.types import TensorType

FOLDER = PACKAGE / "ops"
DEFINED_ELSEWHERE = {"custom", "foreign"}  # by a caller, or by nobody here: there is nothing to try
FILES = sorted(
    path.stem
    for path in FOLDER.iterdir()
    if not path.name.startswith(("_", ".")) and path.suffix == ".py"
)


def test_the_registry_is_the_folder() -> None:
    assert sorted(registry()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_an_op_has_the_name_of_its_file(name: str) -> None:
    op = registry()[name]
    assert isinstance(op, Op)
    assert op.name == name


@pytest.mark.parametrize("name", FILES)
def test_an_op_has_cases_that_can_be_read(name: str) -> None:
    op = registry()[name]
    assert op.cases or name in DEFINED_ELSEWHERE
    for case in op.cases:
        assert isinstance(case, Case)
        for text in case.inputs:
            assert text is None or str(TensorType.parse(text)) == text.replace(" ", "")
        assert isinstance(case.attributes, op.attributes)
        assert all(0 <= place < len(case.inputs) for place in case.constants)


@pytest.mark.parametrize("name", FILES)
def test_variants_of_an_op_have_different_names(name: str) -> None:
    names = [variant.name for variant in registry()[name].variants]
    assert len(names) == len(set(names))


def test_no_op_imports_another() -> None:
    wrong = [
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
    assert not wrong, "\n".join(wrong)
