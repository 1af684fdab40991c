"""Chapter 6: recipes, the settings of a whole job.

A recipe is a readable TOML file with one table for each part of the job: model, data, pretraining,
finetuning, finetuning without pretraining, and penalties for heads. The package contains a few
recipes. A recipe with a `base` contains only the settings that differ from that recipe. Your own
file, or single settings, override the settings of a recipe.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from tinyattn.attention import Penalty
from tinyattn.checks import settle
from tinyattn.data.cloze import Cloze
from tinyattn.data.corruption import Corruption
from tinyattn.data.text import DataError, read_text
from tinyattn.models import GPTConfig
from tinyattn.names import nearest, ours
from tinyattn.training.settings import SettingError, TrainSettings, build


@dataclass(frozen=True)
class DataSettings:
    """How text becomes examples."""

    objective: str = "span"  # span corruption; or "next": next-token prediction
    longest: int = 112  # largest length of an example, in tokens, before MASK is added
    truncate: float = 1.0  # probability that a document is cut to a random length
    shortest: int = 4  # smallest random length, in tokens
    words: int = 0  # largest number of whole words masked; 0: a span of characters
    cloze: float = 0.0  # probability that an example is a cloze (data/cloze.py)
    cue: int = 3  # of a cloze: largest number of words shown before a phrase
    phrases: int = 3  # of a cloze: largest number of phrases
    inline: float = 0.0  # of a cloze: probability that the title stands among other words
    length: int = 0  # tokens counted per example; 0: the context length
    blank_lines: bool = False  # whether an empty line is a document of its own
    ascii_questions: bool = False  # whether finetuning drops characters that are not ASCII
    validation: float = 0.1  # with "next": the fraction of the text that is held out for validation

    def __post_init__(self) -> None:
        settle(self)
        if self.objective not in ("span", "next"):
            raise ValueError(f"objective must be 'span' or 'next'; got {self.objective!r}")
        if self.objective == "next" and self.cloze:
            raise ValueError(
                f"objective 'next' has no clozes; got cloze {self.cloze}: set data.cloze to 0"
            )
        if self.inline and not self.cloze:
            raise ValueError(
                f"inline {self.inline} is a fraction of the clozes; set data.cloze too"
            )
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation must be at least 0 and below 1; got {self.validation}")
        self.corruption()
        self.clozes()

    def check_mixing(self) -> None:
        """Raises: SettingError unless questions can be mixed with examples of this objective."""
        if self.objective != "span":
            raise SettingError(
                "questions can be mixed only with the examples of data.objective 'span'; "
                f"got {self.objective!r}"
            )

    def corruption(self) -> Corruption:
        """The span corruption. Raises: ValueError for a setting out of range."""
        return Corruption(self.longest, self.truncate, self.shortest, self.words)

    def clozes(self) -> Cloze:
        """The cloze settings. Raises: ValueError for a setting out of range."""
        return Cloze(self.cloze, self.cue, self.phrases, self.inline, self.longest)


@dataclass(frozen=True)
class Recipe:
    """All settings of a job. `model.vocabulary` is set when the corpus is known.

    Raises: SettingError for a penalty that the model's attention type does not support.
    """

    model: GPTConfig
    data: DataSettings
    pretrain: TrainSettings
    finetune: TrainSettings
    scratch: TrainSettings
    penalty: Penalty

    def __post_init__(self) -> None:
        try:
            self.penalty.check(self.model.attention_type[0], self.model.cannot)
        except ValueError as error:
            raise SettingError(str(error)) from error

    def model_for(self, vocabulary: int) -> GPTConfig:
        """The model's sizes, with this number of tokens in the vocabulary."""
        return replace(self.model, vocabulary=vocabulary)

    def tables(self) -> dict[str, dict[str, Any]]:
        """The settings as nested dictionaries, in the form of the TOML file."""
        tables = asdict(self)
        del tables["model"]["vocabulary"]  # it follows from the corpus
        return tables


TABLES = {"model": GPTConfig, "data": DataSettings, "pretrain": TrainSettings,
          "finetune": TrainSettings, "scratch": TrainSettings, "penalty": Penalty}  # fmt: skip


def recipe_names() -> list[str]:
    """The names of the recipes in the package."""
    files = resources.files("tinyattn.tasks").joinpath("recipes").iterdir()
    return sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml"))


def recipe_summary(name: str) -> str:
    """The purpose of a recipe in the package: the first sentence of its file."""
    comment = _file(name).partition("\n\n")[0].replace("\n#", "").removeprefix("# ")
    return re.split(r"\.(?:\s|$)", comment)[0]


def _file(name: str) -> str:
    """The text of a recipe in the package."""
    file = resources.files("tinyattn.tasks").joinpath("recipes", f"{name}.toml")
    return file.read_text(encoding="utf-8")


def _named(name: str) -> dict[str, dict[str, Any]]:
    """The tables of a recipe in the package; they override those of its `base`, if it has one.

    Raises: SettingError for an unknown name.
    """
    if name not in recipe_names():
        file = "; give a file as `config`" if name.endswith(".toml") else ""
        raise SettingError(
            f"recipe must be one of {recipe_names()}; got {name!r}"
            f"{file or nearest(name, recipe_names(), otherwise=False)}"
        )
    more = tomllib.loads(_file(name))
    base = more.pop("base", None)
    return _merged(_named(base) if base else {}, more, name)


def load_recipe(
    base: str | Recipe, *, config: Path | None = None, overrides: dict[str, Any] | None = None
) -> Recipe:
    """A recipe with changes from a TOML file and from single settings.

    Args:
        base: a recipe, or the name of one in the package.
        config: a TOML file that overrides settings of `base`.
        overrides: single settings by "table.key", such as "model.width"; they override both.
    Raises: SettingError for an unknown name, table or key, or a value that does not fit; DataError
        for a file that cannot be read.
    """
    where, tables = ("recipe", base.tables()) if isinstance(base, Recipe) else (base, _named(base))
    if config is not None:
        try:
            tables = _merged(tables, tomllib.loads(read_text(config)), str(config))
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"{config}: not TOML: {error}") from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"{config}: a value is too long, or nested too deep") from error
    for key, value in (overrides or {}).items():
        table, _, setting = key.partition(".")
        tables = _merged(tables, {table: {setting: value}}, key)
    return recipe_from(tables, where)


def recipe_from(tables: dict[str, dict[str, Any]], where: str) -> Recipe:
    """A recipe from nested dictionaries, checked.

    Without a `scratch` table, finetuning without pretraining has the settings of `finetune`.

    Args: where: where the settings come from, for error messages.
    """
    tables = {"scratch": tables.get("finetune", {}), **tables}
    if "vocabulary" in tables.get("model", {}):
        raise SettingError(f"{where}: model.vocabulary follows from the corpus; leave it out")
    for table in TABLES:
        for key in tables.get(table, {}):
            home = home_of(key, table)
            if home and home.partition(".")[0] != table:
                raise SettingError(f"{where} [{table}]: no setting {key!r}; did you mean {home!r}?")
    parts = {**tables, "model": {"vocabulary": 1, **tables.get("model", {})}}
    return Recipe(**{t: build(kind, dict(parts.get(t, {})), f"{where} [{t}]")
                     for t, kind in TABLES.items()})  # fmt: skip


def home_of(key: str, table: str = "") -> str:
    """`TABLE.KEY` of a setting, by its name here or in other libraries; empty if there is none.

    Args: table: table that is searched first.
    """
    of = {table: {field.name for field in fields(kind)} for table, kind in TABLES.items()}
    name = ours(key, set().union(*of.values()))
    homes = [table for table, names in of.items() if name in names]
    return f"{table if table in homes else homes[0]}.{name}" if homes else ""


def _merged(tables: dict[str, Any], more: dict[str, Any], where: str) -> dict[str, Any]:
    """The tables, changed by those of `more`. Raises: SettingError for an unknown table."""
    for table, values in more.items():
        if table == "base":
            raise SettingError(f"{where}: only a recipe of the package has a base; leave it out: a "
                               "file overrides the recipe that --recipe names")  # fmt: skip
        if table not in TABLES or not isinstance(values, dict):
            raise SettingError(f"{where}: no table {table!r}{nearest(table, list(TABLES))}")
    return tables | {table: tables.get(table, {}) | values for table, values in more.items()}


def to_toml(tables: dict[str, dict[str, Any]], *, comments: bool = False) -> str:
    """Nested dictionaries of numbers, booleans and strings, as TOML.

    Args: comments: whether to add the meaning of each setting, as a comment.
    """
    lines = []
    for table, values in tables.items():
        lines.append(f"[{table}]")
        meaning = meanings(TABLES[table]) if comments else {}
        for key, value in values.items():
            text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
            text = text or (f'"{value}"' if isinstance(value, str) else repr(value))
            line = f"{key} = {text}"
            lines.append(f"{line:<30} # {meaning[key]}" if key in meaning else line)
        lines.append("")
    return "\n".join(lines)


def meanings(settings: type) -> dict[str, str]:
    """The comment beside each field of a class of settings, from its source; empty without it."""
    try:
        source = inspect.getsource(settings)
    except OSError:  # a package without sources
        return {}
    return dict(re.findall(r"^    (\w+): .*?  # (.+)$", source, re.MULTILINE))
