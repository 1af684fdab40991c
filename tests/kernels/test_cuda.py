"""Properties of CUDA kernels that their formulas do not have: a GPU raises no errors."""

from typing import Any

import numpy as np
import pytest
from gpu import needs_gpu
from numpy.testing import assert_array_equal

from tinyattn.backend import asarray, asnumpy, get_device
from tinyattn.dispatch import KERNELS
from tinyattn.training import OPTIMIZERS

pytestmark = needs_gpu

RULES = {
    made.rule.__name__: made
    for made in OPTIMIZERS.values()
    if (made.rule.__name__, "cuda") in KERNELS
}


def call(name: str, *arguments: Any, **options: Any) -> Any:
    return KERNELS[name, "cuda"].run(get_device("cuda").xp, *arguments, **options)


def numbers(*values: float) -> list[Any]:
    """Arrays without axes, on the GPU."""
    return [asarray(np.float32(value)[None], device="cuda")[0] for value in values]


@pytest.mark.parametrize("rule", RULES)
def test_a_gradient_of_nan_changes_nothing(rule: str) -> None:
    made = RULES[rule]
    shape = 2 + len(made.moments), 3, 3
    before = np.random.default_rng(0).standard_normal(shape).astype("float32")
    before[1] = np.nan
    arrays = [asarray(a, device="cuda") for a in before.copy()]
    call(rule, *arrays, t=7, lr=0.01, decay=0.1, **made.hyperparameters)
    for mine, then in zip(arrays, before, strict=True):
        assert_array_equal(asnumpy(mine), then)


@pytest.mark.parametrize(
    ("losses", "squares"), [([np.nan], [4.0]), ([1.0], [np.inf]), ([1.0, np.inf], [1.0])]
)
def test_nan_is_recorded(losses: list[float], squares: list[float]) -> None:
    """Afterwards no norm is returned."""
    flag = get_device("cuda").xp.zeros(1, np.int32)
    found = call("clip_factor", numbers(*losses), numbers(*squares), 1.5, flag)
    assert int(flag[0]) == 1
    assert not all(np.isfinite(float(a)) for a in found[:2]) and np.isnan(float(found[2]))
    loss, norm, factor = call("clip_factor", numbers(1.0), numbers(1.0), 1.5, flag)
    assert float(loss) == 1 and np.isnan(float(norm)) and np.isnan(float(factor))


def test_a_target_out_of_range_gives_nan() -> None:
    z, targets = (asarray(a, device="cuda") for a in (np.zeros((2, 3), "f4"), np.array([1, 3])))
    assert np.isnan(float(call("cross_entropy", z, targets)[0]))
