"""Keys drawn from any normal distributions."""

import numpy as np
import pytest
from numpy.testing import assert_array_less

from tinyattn import Tensor
from tinyattn.theory import noisy_keys, normal_keys, orthonormal

N = 40_000
MEANS = 3 * orthonormal(np.random.default_rng(1), 3, 4)
ROOTS = np.random.default_rng(2).standard_normal((3, 4, 3))
COVARIANCES = ROOTS @ ROOTS.swapaxes(1, 2)  # of rank 3, in four dimensions
ALPHA, LENGTHS = 0.1, np.array([0.5, 0.0, 2.0])
SHEETS = ALPHA * np.eye(4) + LENGTHS[:, None, None] * MEANS[:, :, None] * MEANS[:, None, :]


def off(keys: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The deviations of means and covariances of N draws in standard errors, for all keys together.

    That of a mean is √(Σ_dd/N), and that of a covariance √((Σ_dd Σ_ee + Σ_de²)/N) (Isserlis 1918).
    """
    flat, every = (keys - MEANS).reshape(len(keys), -1), np.zeros((12, 12))
    for i, covariance in enumerate(covariances):  # different keys are independent
        every[4 * i : 4 * i + 4, 4 * i : 4 * i + 4] = covariance
    alone = np.diag(every)
    errors = np.sqrt((np.outer(alone, alone) + every**2) / len(keys))
    found = flat.T @ flat / len(keys)
    return flat.mean(axis=0) / np.sqrt(alone / len(keys)), (found - every) / errors


@pytest.mark.parametrize("covariances", [COVARIANCES, SHEETS], ids=["any", "of the sheets"])
def test_draws_have_the_means_and_covariances_that_are_given(covariances: np.ndarray) -> None:
    """12 means and 78 different covariances: none deviates by 4.5 standard errors (p = 6e-4)."""
    keys = normal_keys(np.random.default_rng(0), Tensor(MEANS), covariances, N).numpy()
    assert keys.shape == (N, 3, 4)
    for numbers in off(keys, covariances):
        assert_array_less(abs(numbers), 4.5)


def test_noisy_keys_are_the_special_case_of_the_answer_sheets() -> None:
    """Both are normal, so means and covariances determine the distribution."""
    keys = noisy_keys(np.random.default_rng(0), Tensor(MEANS), ALPHA, list(LENGTHS), N).numpy()
    for numbers in off(keys, SHEETS):
        assert_array_less(abs(numbers), 4.5)


def test_no_noise_no_keys_and_float32(device: str) -> None:
    means, rng = Tensor(MEANS.astype("float32"), device=device), np.random.default_rng(0)
    keys = normal_keys(rng, means, np.zeros((3, 4, 4)), 2)
    assert keys.dtype == np.float32 and keys.device == means.device
    np.testing.assert_array_equal(keys.numpy(), [MEANS.astype("float32")] * 2)
    assert normal_keys(rng, means, COVARIANCES, 0).shape == (0, 3, 4)
    assert normal_keys(rng, Tensor(np.ones((0, 4))), np.ones((0, 4, 4)), 2).shape == (2, 0, 4)
