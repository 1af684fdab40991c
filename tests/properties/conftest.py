"""For all properties: attention of finite numbers is computed by its fast kernel.

Results that are not finite are computed again by selection, which would hide a broken kernel.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinyattn.kernels.cpu.selected import Selection


@pytest.fixture(scope="module", autouse=True)
def _the_fast_kernel_is_right() -> Iterator[None]:
    def refusing(run: Any) -> Any:
        def selected(self: Selection, *args: Any) -> Any:
            if all(np.isfinite(a).all() for a in self.qkv):
                raise AssertionError("attention of finite numbers gave one that is not finite")
            return run(self, *args)

        return selected

    with pytest.MonkeyPatch.context() as patch:
        for name in ("outputs", "gradients"):
            patch.setattr(Selection, name, refusing(getattr(Selection, name)))
        yield
