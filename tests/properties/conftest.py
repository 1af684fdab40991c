"""What holds for all properties: numbers are finite here, and attention goes its fast way.

What is not finite is done again by selection, which would hide that the fast way is broken.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tinyattn.kernels.cpu.selected import Selection


@pytest.fixture(scope="module", autouse=True)
def _the_fast_way_is_right() -> Iterator[None]:
    def refuse(self: Selection, *args: Any) -> Any:
        raise AssertionError("attention of finite numbers gave one that is not finite")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "answers", refuse)
        patch.setattr(Selection, "gradients", refuse)
        yield
