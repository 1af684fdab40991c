"""Recipes: misspelt names are refused, and a saved recipe is read back unchanged."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tinyattn.data import DataError
from tinyattn.tasks.recipe import load_recipe, recipe_from, recipe_names, to_toml
from tinyattn.training.settings import SettingError

RESOLVED = json.loads(Path(__file__).with_name("resolved_recipes.json").read_text())
"""Every setting of every recipe, from a time when each file contained all of them."""


def test_recipes_have_the_settings_from_before_they_had_a_base() -> None:
    """A setting that was added later has its default."""
    assert [*RESOLVED] == recipe_names()
    for name, tables in RESOLVED.items():
        found = load_recipe(name).tables()
        assert found.keys() == tables.keys()
        for table, values in tables.items():
            assert {key: found[table][key] for key in values} == values, (name, table)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_reads_back_equal(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    text = to_toml(recipe.tables())
    assert recipe_from(tomllib.loads(text), "here") == recipe
    (tmp_path / "config.toml").write_text(text)
    for other in recipe_names():  # a complete config replaces every setting of the recipe
        assert load_recipe(other, config=tmp_path / "config.toml") == recipe


def test_each_setting_has_a_comment(tmp_path: Path) -> None:
    """`tinyattn info --recipe` prints it beside the value, and the text can still be read."""
    recipe = load_recipe("a5")
    text = to_toml(recipe.tables(), comments=True)
    assert recipe_from(tomllib.loads(text), "here") == recipe
    assert not [line for line in text.splitlines() if " = " in line and "  # " not in line]


def test_the_longer_recipe_is_the_shorter_one_with_more_epochs() -> None:
    hour, best = load_recipe("a5-hour"), load_recipe("a5-best")
    assert best.pretrain.epochs > hour.pretrain.epochs
    assert replace(best, pretrain=replace(best.pretrain, epochs=hour.pretrain.epochs)) == hour


def test_settings_come_before_the_file_and_that_before_the_recipe(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_bytes(b"\xef\xbb\xbf[pretrain]\r\nepochs = 7\r\nlearning_rate = 1\r\n")
    recipe = load_recipe("world", config=config, overrides={"pretrain.epochs": 9})
    assert (recipe.pretrain.epochs, recipe.pretrain.learning_rate) == (9, 1.0)
    assert recipe.model == load_recipe("world").model


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[pretrain]\nepoch = 3", SettingError, r"\[pretrain\]: no setting 'epoch'; did you mean"),
        ("[pretain]\nepochs = 3", SettingError, r"no table 'pretain'; did you mean 'pretrain'"),
        ("epochs = 3", SettingError, r"no table 'epochs'"),
        ("base = 'fast'", SettingError, r"mine\.toml: only a recipe of the package has a base"),
        ("[model]\nlayers = 'two'", SettingError, r"layers must be int; got str 'two'"),
        ("[model]\nheads = 7", SettingError, r"heads must divide width"),
        ("[model]\npositions = 'sinus'", SettingError, r"positions must be one of"),
        ("[data]\nobjective = 'words'", SettingError, r"objective must be 'span' or 'next'"),
        ("[data]\nlongest = 1", SettingError, r"shortest must be in 1..longest"),
        ("[data]\nvalidation = 1.0", SettingError, r"validation must be at least 0 and below 1"),
        ("[model]\nlr = 1.0", SettingError, r"no setting 'lr'; did you mean 'pretrain\.learn"),
        ("[finetune]\nwidth = 8", SettingError, r"no setting 'width'; did you mean 'model\.width"),
        ("[data]\nlength = -1", SettingError, r"length must be at least 0; got -1"),
        ("[penalty]\ncap = inf", SettingError, r"cap must be .*finite; got inf"),
        (f"[model]\nwidth = 1{'0' * 20}", SettingError, r"width must be at most 2147483647"),
        (f"[model]\nwidth = 0x{'f' * 9999}", SettingError, r"width must be at most 2147483647"),
        (f"[model]\nwidth = {'9' * 9999}", DataError, r"mine\.toml: a value is too long"),
        (f"[data]\nphrases = {'[' * 20_000}{']' * 20_000}", DataError, r"mine\.toml: .* too deep"),
        (f"[data]\nphrases = {'{a=' * 20_000}1{'}' * 20_000}", DataError, r"nested too deep"),
        (f"[data]\nphrases{'.a' * 2_000} = 1", SettingError, r"phrases must be int; got dict"),
        ("[pretrain", DataError, r"mine\.toml: not TOML"),
        ("", DataError, r"mine\.toml: the file is empty"),
    ],
)  # fmt: skip
def test_a_wrong_config_is_refused(tmp_path: Path, text: str, error: type, message: str) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(text)
    with pytest.raises(error, match=message):
        load_recipe("world", config=config)


def test_unknown_recipes_and_single_settings_are_refused() -> None:
    with pytest.raises(SettingError, match=r"recipe must be one of .*a5.*; got 'a4'"):
        load_recipe("a4")
    with pytest.raises(SettingError, match=r"got 'wrold'; did you mean 'world'\?"):
        load_recipe("wrold")
    with pytest.raises(SettingError, match=r"got 'my\.toml'; give a file as `config`"):
        load_recipe("my.toml")
    with pytest.raises(
        SettingError, match=r"no setting 'learning_rat'; did you mean 'learning_rate'"
    ):
        load_recipe("a5", overrides={"pretrain.learning_rat": 1.0})
    with pytest.raises(SettingError, match="no table 'train'"):
        load_recipe("a5", overrides={"train.learning_rate": 1.0})


def test_without_a_table_scratch_has_the_settings_of_finetune() -> None:
    recipe = recipe_from({"finetune": {"epochs": 77}}, "here")
    assert recipe.scratch == recipe.finetune
