"""Settings: nothing is misspelt, mistyped or out of range without a word."""

import pytest

from tinyattn.models import GPTConfig
from tinyattn.training.settings import SettingError, TrainSettings, build


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (TrainSettings, {"rate": 1.0}, r"no setting 'rate'"),
        (TrainSettings, {"epoch": 3}, r"no setting 'epoch'; did you mean 'epochs'\?"),
        (TrainSettings, {"zzz": 3}, r"no setting 'zzz'; there are adam_scale, batch"),
        (TrainSettings, {"epochs": "3"}, r"epochs must be int; got str '3'"),
        (TrainSettings, {"epochs": 3.0}, r"epochs must be int; got float 3.0"),
        (TrainSettings, {"epochs": True}, r"epochs must be int; got bool True"),
        (TrainSettings, {"shuffle": 1}, r"shuffle must be bool; got int 1"),
        (TrainSettings, {"learning_rate": [1.0]}, r"learning_rate must be float; got list"),
        (TrainSettings, {"learning_rate": -1.0}, r"learning_rate must be at least 0 and .*got -1"),
        (TrainSettings, {"epochs": 0}, r"epochs must be above 0; got 0"),
        (TrainSettings, {"batch": -1}, r"batch must be above 0; got -1"),
        (TrainSettings, {"clip": float("nan")}, r"clip must be above 0; got nan"),
        (TrainSettings, {"steps": -1}, r"steps must be at least 0; got -1"),
        (TrainSettings, {"optimizer": "sgd"}, r"optimizer must be 'muon' or 'adamw'; got 'sgd'"),
        (TrainSettings, {"decay": "all"}, r"decay must be one of \['a5', 'matrices'\]; got 'all'"),
        (TrainSettings, {"schedule": "step"}, r"schedule must be one of .*; got 'step'"),
        (GPTConfig, {"vocabulary": 9, "heads": 7}, r"heads must divide width 256; got 7"),
        (GPTConfig, {}, r"vocabulary"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(kind: type, values: dict, message: str) -> None:
    with pytest.raises(SettingError, match=f"^here: .*{message}"):
        build(kind, values, "here")


def test_a_whole_number_will_do_for_a_float() -> None:
    settings = build(TrainSettings, {"learning_rate": 1}, "here")
    assert settings.learning_rate == 1.0 and type(settings.learning_rate) is float


def test_steps_come_before_epochs() -> None:
    assert TrainSettings(epochs=3).total_steps(per_epoch=7) == 21
    assert TrainSettings(epochs=3, steps=5).total_steps(per_epoch=7) == 5
