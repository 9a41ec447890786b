"""Config reads environment variables and rejects unknown ones, with suggestions."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from fourfold import config
from fourfold.config import Config, default_cache, pocl_cache
from fourfold.errors import InputError


def test_defaults_apply_without_variables() -> None:
    config = Config.from_environment({})
    assert config == Config()
    assert (config.device, config.precision, config.sizes) == ("auto", "fp32", "auto")
    assert config.cache == default_cache()


def test_every_variable_is_read() -> None:
    config = Config.from_environment(
        {
            "FOURFOLD_DEVICE": "pocl",
            "FOURFOLD_PRECISION": "mixed",
            "FOURFOLD_CACHE": "some/folder",
            "FOURFOLD_SIZES": "literal",
            "HOME": "elsewhere",
        }
    )
    assert config == Config("pocl", "mixed", "some/folder", "literal")


def test_reads_the_process_environment_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_DEVICE", "gpu")
    assert Config.from_environment().device == "gpu"


@pytest.mark.parametrize("text", ["none", "NONE"])
def test_none_disables_the_cache(text: str) -> None:
    assert Config.from_environment({"FOURFOLD_CACHE": text}).cache is None


def test_expands_the_home_folder_in_the_cache_path() -> None:
    config = Config.from_environment({"FOURFOLD_CACHE": "~/kernels"})
    assert config.cache == str(Path.home() / "kernels")


def test_conversion_limit_is_a_positive_number_of_seconds() -> None:
    def limit(text: str) -> float:
        return Config.from_environment({"FOURFOLD_CONVERSION_LIMIT": text}).conversion_limit

    assert (limit(""), limit("30"), limit("0.5")) == (600.0, 30.0, 0.5)
    for wrong in ("0", "-1", "soon", "inf", "1e9"):
        with pytest.raises(InputError, match="must be a number of seconds"):
            limit(wrong)


def test_empty_variables_are_ignored() -> None:
    names = ("DEVICE", "PRECISION", "CACHE", "SIZES")
    assert Config.from_environment({f"FOURFOLD_{name}": "" for name in names}) == Config()


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("FOURFOLD_PRECISION", "fp23", "did you mean 'fp32'"),
        ("FOURFOLD_PRECISION", "zebra", "use one of: fp32, mixed, fp16"),
        ("FOURFOLD_SIZES", "literals", "did you mean 'literal'"),
        ("FOURFOLD_PRECISON", "fp32", "did you mean 'FOURFOLD_PRECISION'"),
    ],
)
def test_rejects_unknown_names_and_values_with_a_suggestion(
    name: str, value: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        Config.from_environment({name: value})
    assert name in caught.value.what
    assert caught.value.why
    assert hint in caught.value.fix


def test_constructor_validates_values() -> None:
    with pytest.raises(InputError, match="precision is 'double'"):
        Config(precision="double")


def test_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().device = "gpu"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/fourfold"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/fourfold"),
        ("linux", {}, "/home/me/.cache/fourfold"),
        ("darwin", {}, "/home/me/Library/Caches/fourfold"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/fourfold/Cache"),
    ],
)
def test_default_cache_folder_follows_the_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], folder: str
) -> None:
    monkeypatch.setattr(config.sys, "platform", platform)
    monkeypatch.setattr(config.os.path, "expanduser", lambda _: "/home/me")
    assert config.default_cache(variables) == folder


def test_finds_the_cache_folder_of_pocl() -> None:
    assert pocl_cache({"POCL_CACHE_DIR": "/kernels", "XDG_CACHE_HOME": "/caches"}) == "/kernels"
    assert pocl_cache({"XDG_CACHE_HOME": "/caches"}) == "/caches/pocl/kcache"
    assert pocl_cache({}).endswith("/.cache/pocl/kcache")
