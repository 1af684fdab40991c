"""What kernels on a GPU promise beside their formulas: a GPU cannot raise, and does not wait."""

from typing import Any

import numpy as np
import pytest
from gpu import needs_gpu
from numpy.testing import assert_array_equal

import tinyattn.training  # noqa: F401  (whose rules have kernels, too)
from tinyattn.backend import asarray, asnumpy, get_device
from tinyattn.dispatch import KERNELS

pytestmark = needs_gpu

RULES = {
    "sgd": (1, {"momentum": 0.9}),
    "adamw": (2, {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8}),
    "muon": (1, {"momentum": 0.9}),
}
"""How many moments, and numbers."""


def call(name: str, *arguments: Any, **options: Any) -> Any:
    return KERNELS[name, "cuda"].run(get_device("cuda").xp, *arguments, **options)


def numbers(*values: float) -> list[Any]:
    """Arrays without axes, there."""
    return [asarray(np.float32(value)[None], device="cuda")[0] for value in values]


@pytest.mark.parametrize("rule", RULES)
def test_a_gradient_that_is_no_number_moves_nothing(rule: str) -> None:
    moments, options = RULES[rule]
    before = np.random.default_rng(0).standard_normal((2 + moments, 3, 3)).astype("float32")
    before[1] = np.nan
    arrays = [asarray(a, device="cuda") for a in before.copy()]
    call(rule, *arrays, t=7, rate=0.01, decay=0.1, **options)
    for mine, then in zip(arrays, before, strict=True):
        assert_array_equal(asnumpy(mine), then)


@pytest.mark.parametrize(
    ("losses", "squares"), [([np.nan], [4.0]), ([1.0], [np.inf]), ([1.0, np.inf], [1.0])]
)
def test_what_is_not_a_number_is_remembered(losses: list[float], squares: list[float]) -> None:
    """And then there is no norm any more."""
    flag = get_device("cuda").xp.zeros(1, np.int32)
    found = call("clip_factor", numbers(*losses), numbers(*squares), 1.5, flag)
    assert int(flag[0]) == 1
    assert not all(np.isfinite(float(a)) for a in found[:2]) and np.isnan(float(found[2]))
    loss, norm, factor = call("clip_factor", numbers(1.0), numbers(1.0), 1.5, flag)
    assert float(loss) == 1 and np.isnan(float(norm)) and np.isnan(float(factor))


def test_a_target_that_does_not_exist_gives_no_number() -> None:
    z, targets = (asarray(a, device="cuda") for a in (np.zeros((2, 3), "f4"), np.array([1, 3])))
    assert np.isnan(float(call("cross_entropy", z, targets)[0]))
