"""For tests that need CuPy: on a GPU, or on the CPU (tests/cuda_on_cpu/)."""

import pytest

from tinyattn.backend import get_device


def there_is_one() -> bool:
    """Whether there is a device "cuda"."""
    try:
        get_device("cuda")
    except RuntimeError:
        return False
    return True


needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not there_is_one(), reason="needs CuPy and a GPU"),
]
