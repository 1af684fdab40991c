"""The modules of the package, for tests that import all of them."""

import pkgutil
from importlib.util import find_spec

import tinyattn.cli  # first: the command files of other folders import it

NEED_EXTRAS = [name for name, extra in {"numba.loops": "numba"}.items() if not find_spec(extra)]
"""The ends of the names of modules that cannot be imported here, because an extra is missing."""


def names() -> list[str]:
    """The full name of every module that can be imported here."""
    found = [module.name for module in pkgutil.walk_packages(tinyattn.__path__, "tinyattn.")]
    return [name for name in found if not name.endswith(("__main__", *NEED_EXTRAS))]
