"""For all properties: values are finite here, and attention is computed by its fast kernel.

Results that are not finite are computed again by selection, which would hide a broken kernel.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tinyattn.kernels.cpu.selected import Selection


@pytest.fixture(scope="module", autouse=True)
def _the_fast_kernel_is_right() -> Iterator[None]:
    def refuse(self: Selection, *args: Any) -> Any:
        raise AssertionError("attention of finite numbers gave one that is not finite")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "outputs", refuse)
        patch.setattr(Selection, "gradients", refuse)
        yield
