"""Engine room: how a kernel is registered in the table of dispatch.py."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from tinyattn.dispatch import KERNELS, F, Function, Kernel

COMPILES = find_spec("numba") is not None
"""Whether Numba is installed, which compiles loops (kernels/numba)."""


def kernel(name: str, device: str, why_not: Function | None = None) -> Callable[[F], F]:
    """Decorator: registers a function as the kernel of the formula `name` on a device.

    Args: why_not: function of the same arguments; returns why the kernel cannot take them, or "".
        It depends on shapes, dtypes, strides and options only, so that equal calls are computed
        in the same way.
        device: or "numba"; then the kernel is registered only if Numba is installed.
    Raises: ValueError if the formula has a kernel on this device already.
    """

    def enter(run: F) -> F:
        if device == "numba" and not COMPILES:
            return run
        if (name, device) in KERNELS:
            raise ValueError(f"kernel: {name!r} has a kernel on {device!r} already")
        KERNELS[name, device] = Kernel(run, why_not)
        return run

    return enter
