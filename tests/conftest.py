"""For all tests: repeatable Hypothesis runs, and the devices on which tests run."""

import os
import signal
from collections.abc import Iterator

import pytest
import strict
from hypothesis import Phase, settings

from tinyattn.backend import Device, register
from tinyattn.parallel.threads import one_blas_thread

if os.environ.get("TINYATTN_CUDA_ON_CPU"):  # python tests/cuda_on_cpu
    import cuda_on_cpu

    cuda_on_cpu.start()

from gpu import there_is_one

# A program that a test starts ignores the signals that are ignored here, as in `nohup pytest &`. It
# does not if they have a handler, and then tests can send them.
for number in {signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)}:
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda number, frame: None)

GPU = [pytest.param("cuda", marks=pytest.mark.gpu)] if there_is_one() else []

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None, max_examples=2_000)  # searches for new failures
settings.register_profile(  # any failure is enough, without shrinking (mutation.py)
    "mutation", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

register(Device("strict", strict.xp, strict.Array, strict.put, strict.get, strict.erf))


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread() -> Iterator[None]:
    """One BLAS thread: matrices are small here, and threads would wait for each other."""
    with one_blas_thread():
        yield


@pytest.fixture(scope="session", params=["cpu", "strict", *GPU])
def device(request: pytest.FixtureRequest) -> str:
    """The CPU; the strict device, which refuses what a GPU would; and a GPU if there is one."""
    return str(request.param)
