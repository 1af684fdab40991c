"""Settings: misspelt names, wrong types and values out of range raise errors."""

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, gradcheck
from tinyattn.attention import Penalty
from tinyattn.data import Cloze, Corruption, make_world
from tinyattn.limits import MOST, MOST_SEED
from tinyattn.models import GPT, GPTConfig
from tinyattn.names import ELSEWHERE
from tinyattn.parsing import Parser, ParserConfig, split
from tinyattn.rng import DropoutRNG
from tinyattn.tasks import RunOptions, TextExamples, probe
from tinyattn.tasks.recipe import TABLES, DataSettings, home_of
from tinyattn.tensor import OPS
from tinyattn.training.fit import Fit
from tinyattn.training.settings import SettingError, TrainSettings, build


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        (TrainSettings, {"rate": 1.0}, r"no setting 'rate'"),
        (TrainSettings, {"epoch": 3}, r"no setting 'epoch'; did you mean 'epochs'\?"),
        (TrainSettings, {"zzz": 3}, r"no setting 'zzz'; there are adam_scale, batch"),
        (TrainSettings, {"lr": 3}, r"no setting 'lr'; did you mean 'learning_rate'\?"),
        (TrainSettings, {"WD": 3}, r"no setting 'WD'; did you mean 'weight_decay'\?"),
        (TrainSettings, {"batch_size": 3}, r"did you mean 'batch'\?"),
        (TrainSettings, {"num_epochs": 3}, r"did you mean 'epochs'\?"),
        (GPTConfig, {"d_model": 3}, r"no setting 'd_model'; did you mean 'width'\?"),
        (GPTConfig, {"n_layer": 3}, r"no setting 'n_layer'; did you mean 'layers'\?"),
        (TrainSettings, {"epochs": "3"}, r"epochs must be int; got str '3'"),
        (TrainSettings, {"epochs": 3.0}, r"epochs must be int; got float 3.0"),
        (TrainSettings, {"epochs": True}, r"epochs must be int; got bool True"),
        (TrainSettings, {"shuffle": 1}, r"shuffle must be bool; got int 1"),
        (TrainSettings, {"learning_rate": [1.0]}, r"learning_rate must be float; got list"),
        (TrainSettings, {"learning_rate": 10**400}, r"rate must be at least 0 and finite; got 10"),
        (TrainSettings, {"batch": int("f" * 5000, 16)}, r"batch must be .* more than 4300 digits"),
        (TrainSettings, {"learning_rate": -1.0}, r"learning_rate must be at least 0 and .*got -1"),
        (TrainSettings, {"learning_rate": 1e-60}, r"rate must be 0, or above 0, also in flo"),
        (Penalty, {"cap": 1e-60}, r"cap must be above 0, also in float32; got 1e-60"),
        (TrainSettings, {"epochs": 0}, r"epochs must be above 0; got 0"),
        (TrainSettings, {"batch": -1}, r"batch must be above 0; got -1"),
        (TrainSettings, {"clip": 1e-300}, r"clip must be above 0, also in float32; got 1e-300"),
        (TrainSettings, {"clip": math.inf}, r"clip must be above 0 and finite; got inf"),
        (TrainSettings, {"clip": float("nan")}, r"clip must be above 0; got nan"),
        (TrainSettings, {"beta2": 1.0}, r"beta2 must be at most 0.9999999404; got 1"),
        (TrainSettings, {"eps": 0.0}, r"eps must be above 0; got 0"),
        (TrainSettings, {"betas": [0.9, 0.95]}, r"no setting 'betas'; did you mean 'beta1'"),
        (TrainSettings, {"steps": -1}, r"steps must be at least 0; got -1"),
        (TrainSettings, {"optimizer": "adam"}, r"optimizer must be one of .*; got 'adam'"),
        (TrainSettings, {"decay": "all"}, r"decay must be one of \['a5', 'matrices'\]; got 'all'"),
        (TrainSettings, {"schedule": "step"}, r"schedule must be one of .*; got 'step'"),
        (GPTConfig, {"vocabulary": 9, "width": 10**20}, r"width must be at most 2147483647; got 1"),
        (GPTConfig, {"vocabulary": 9, "width": 2**30}, r"width 1073741824: .* take smaller sizes"),
        (GPTConfig, {"vocabulary": 9, "layers": 10_001}, r"layers must be at most 10000; got"),
        (GPTConfig, {"vocabulary": 9, "layers": 9999, "width": 2**20}, r"of 9999 layers .* a comp"),
        (GPTConfig, {"vocabulary": 2**31 - 1, "width": 2**14}, r"a computer can address"),
        (GPTConfig, {"vocabulary": 9, "context": 2**25}, r"context must be at most 16777216; got"),
        (ParserConfig, {"vocabulary": 9, "relations": 2**30, "label_width": 999}, r"a parser of 2"),
        (GPTConfig, {"vocabulary": 9, "heads": 7}, r"heads must divide width 256; got 7"),
        (GPTConfig, {}, r"vocabulary"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(settings: type, values: dict, message: str) -> None:
    with pytest.raises(SettingError, match=f"^here: .*{message}"):
        build(settings, values, "here")


def test_an_integer_is_accepted_as_a_float() -> None:
    settings = build(TrainSettings, {"learning_rate": 1}, "here")
    assert settings.learning_rate == 1.0 and type(settings.learning_rate) is float


def test_a_recipe_sets_the_hyperparameters_of_its_optimizers() -> None:
    model = GPT(GPTConfig(vocabulary=3, layers=1, heads=1, width=2))
    settings = TrainSettings(momentum=0.5, beta1=0.6, beta2=0.7, eps=1e-3)
    muon, rest = settings.make_optimizers(model)
    assert muon.given == {"momentum": 0.5}
    assert rest.given == {"beta1": 0.6, "beta2": 0.7, "eps": 1e-3}
    (sgd,) = replace(settings, optimizer="sgd").make_optimizers(model)
    assert type(sgd).__name__ == "SGD" and sgd.given == {"momentum": 0.5}


def test_steps_have_priority_over_epochs() -> None:
    assert TrainSettings(epochs=3).total_steps(per_epoch=7) == 21
    assert TrainSettings(epochs=3, steps=5).total_steps(per_epoch=7) == 5


SETTINGS: list[Any] = [
    TrainSettings(), DataSettings(cloze=0.5), Penalty(focus=1.0, near=1.0),
    Corruption(), Cloze(probability=0.5, cue=3, phrases=3, inline=0.5, longest=9),
    GPTConfig(vocabulary=9), ParserConfig(vocabulary=9, relations=3),
]  # fmt: skip
NUMBERS = [(settings, field.name, field.type) for settings in SETTINGS
           for field in fields(settings) if field.type in ("int", "float")]  # fmt: skip
each_number = pytest.mark.parametrize(
    ("settings", "name", "number"), NUMBERS, ids=[f"{type(s).__name__}.{n}" for s, n, _ in NUMBERS]
)


def test_every_table_of_a_recipe_is_tested() -> None:
    assert {*TABLES.values()} <= {type(settings) for settings in SETTINGS}


@each_number
def test_a_number_out_of_range_is_named(settings: Any, name: str, number: str) -> None:
    """Below the range, above it, not a number, None: in Python and in a file."""
    wrong: list[Any] = [-1, math.nan, math.inf, -math.inf, 10**400, "3", None, True]
    wrong += [MOST + 1, 2.5] if number == "int" else [1e39, 1e300]
    called = (
        "(probability|cloze)" if name == "probability" else name
    )  # its name in the table of a recipe
    for value in wrong:
        with pytest.raises((ValueError, SettingError), match=rf"(?=.*\b{called}\b).*must be"):
            replace(settings, **{name: value})
        if isinstance(value, float | int) and not isinstance(value, bool):
            with pytest.raises(SettingError, match=rf"^here: .*\b{called}\b"):
                build(type(settings), {**asdict(settings), name: value}, "here")


@each_number
def test_a_numpy_scalar_becomes_a_python_number(settings: Any, name: str, number: str) -> None:
    """So that it can be written into a checkpoint as JSON."""
    value = getattr(settings, name)
    made = replace(settings, **{name: np.int64(value) if number == "int" else np.float32(value)})
    assert type(getattr(made, name)).__name__ == number
    assert json.loads(json.dumps(asdict(made)))[name] == pytest.approx(value)


@pytest.mark.parametrize("weight", [1e300, 1e38, 2e6])
def test_a_penalty_that_leaves_nothing_of_the_loss_is_refused(weight: float) -> None:
    assert Penalty(focus=1e6, near=1e6)
    for name in ("focus", "near"):
        with pytest.raises(ValueError, match=f"^{name} must be at most 1000000; got"):
            Penalty(**{name: weight})


TREES = [[], []]
SEEDED: dict[str, Callable[[int], Any]] = {
    "GPT": lambda seed: GPT(GPTConfig(vocabulary=3, layers=1, heads=1, width=2), seed=seed),
    "Parser": lambda seed: Parser(ParserConfig(4, 1, heads=1, width=2), seed=seed),
    "DropoutRNG": DropoutRNG,
    "RunOptions": lambda seed: RunOptions(folder=None, seed=seed),  # type: ignore[arg-type]
    "Fit": lambda seed: Fit(TrainSettings(), None, {}, seed=seed),  # type: ignore[arg-type]
    "examples": lambda seed: TextExamples(np.arange(9), 2, batch=1, seed=seed).epoch(0),
    "world": lambda seed: make_world(people=3, dev=1, places=2, seed=seed),
    "split": lambda seed: split(TREES, seed=seed),
    "probe": lambda seed: probe(["a"], [np.array([0])], ["a"], seed=seed),
    "gradcheck": lambda seed: gradcheck(lambda x: x * x, Tensor(np.ones(2)), seed=seed),
}


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_have_64_bits(name: str) -> None:
    """More bits would be ignored by the random generator, and two seeds would give one run."""
    SEEDED[name](MOST_SEED)
    for seed in (MOST_SEED + 1, -1):
        with pytest.raises(ValueError, match="seed must be"):
            SEEDED[name](seed)
    with pytest.raises((ValueError, TypeError), match="seed must be a whole number"):
        SEEDED[name](1.5)  # type: ignore[arg-type]


def test_names_of_other_libraries_lead_to_a_setting() -> None:
    of_ops = {name for op in OPS.values() for name in inspect.signature(op).parameters}
    others = {"cpu", "cuda", "from", "multihead"} | {name for name in of_ops if not home_of(name)}
    assert all(home_of(name).endswith(f".{name}") for name in {*ELSEWHERE} - others)
    for some in ({*ELSEWHERE} - others, of_ops):
        names = [name for our in some & {*ELSEWHERE} for name in ELSEWHERE[our].split()]
        assert len({*names}) == len(names)
    assert not ({*ELSEWHERE} - others) & {n for names in ELSEWHERE.values() for n in names.split()}
    assert home_of("lr") == "pretrain.learning_rate" and home_of("wd", "finetune")[:8] == "finetune"
