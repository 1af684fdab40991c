"""What a GPU and its libraries need; otherwise the error names what to do."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from gpu import needs_gpu

from tinyattn import gpu
from tinyattn.backend import get_device
from tinyattn.kernels.cuda import precision
from tinyattn.parallel import mpi

pytestmark = needs_gpu


def test_a_gpu_that_is_too_old_refuses_tf32_and_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "OLDEST", 200)
    xp = get_device("cuda").xp
    message = r"'tf32' needs a GPU of .* 20.0 or more; this one has"
    with pytest.raises(ValueError, match=message), precision.matmul_precision(xp, "tf32"):
        pass
    with precision.matmul_precision(xp, "float32"):
        pass


def test_threads_that_do_not_wait_for_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(gpu.THREAD_STREAMS, "1")
    with pytest.raises(RuntimeError, match=f"{gpu.THREAD_STREAMS} threads .* unset it"):
        gpu._open_cuda()
    monkeypatch.setenv(gpu.THREAD_STREAMS, "0")
    gpu._open_cuda()


def test_the_error_if_gpus_cannot_be_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*arguments: Any, **more: Any) -> Any:
        raise RuntimeError("NCCL is not available")

    without = SimpleNamespace(init_process_group=none)
    monkeypatch.setitem(sys.modules, "cupyx.distributed", without)
    with pytest.raises(RuntimeError, match=r"cannot be .* is not available; each .* nvidia-nccl"):
        mpi.connect_gpus(0, 2)
