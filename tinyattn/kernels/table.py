"""Engine room: how a kernel enters the table that the book chooses from."""

from __future__ import annotations

from collections.abc import Callable

from tinyattn.dispatch import KERNELS, F, Function, Kernel


def kernel(name: str, device: str, why_not: Function | None = None) -> Callable[[F], F]:
    """Decorator: this function is the kernel of the formula `name` on a device.

    Args: why_not: says why the kernel cannot take these arguments, or "". It looks at shapes,
        precisions and strides only, so that a call is computed the same way every day.
    """

    def enter(run: F) -> F:
        if (name, device) in KERNELS:
            raise ValueError(f"kernel: there is one of {name!r} on {device!r} already")
        KERNELS[name, device] = Kernel(run, why_not)
        return run

    return enter
