"""Every report that may concern a GPU is tried on the CPU and on the stand-in for one."""

import pytest

import strict
from tinyattn.backend import Device, register

register(Device("strict", strict.xp, strict.Array, strict.put, strict.get, strict.erf))


@pytest.fixture(params=["cpu", "strict"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)
