"""Write surface.json: the names CuPy offers and the arguments each of them takes.

CuPy can be imported and inspected without a GPU, so any machine will do:

    python -m venv /tmp/cupy
    /tmp/cupy/bin/pip install 'cupy-cuda13x==14.2.*'
    /tmp/cupy/bin/python tests/strict/snapshot.py

Run it again when the version of CuPy changes; the diff of surface.json shows what is new.
"""

import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import cupy

# Functions that take **kwargs; the parameters are those of their documentation.
KEYWORDS_IN_DISGUISE = {
    "einsum": "(*operands, dtype, optimize)",
    "meshgrid": "(*xi, indexing, sparse, copy)",
    "pad": ("(array, pad_width, mode, *, constant_values, end_values, reflect_type, stat_length)"),
}


def signature(function: Any) -> str:
    """The parameters of a function without their defaults, as in "(a, axis, *, dtype)"."""
    if function.__name__ in KEYWORDS_IN_DISGUISE:
        return KEYWORDS_IN_DISGUISE[function.__name__]
    try:
        text = str(inspect.signature(function))
    except (
        ValueError
    ):  # compiled by Cython, which has the signature in the first line of the docstring
        text = (function.__doc__ or "").strip().partition("\n")[0]
    match = re.search(r"\((.*)\)", text)
    parameters = split_at_commas(match[1]) if match else ["*args", "**kwargs"]
    names = [name_of(parameter) for parameter in parameters]
    return f"({', '.join(name for name in names if name != 'self')})"


def split_at_commas(text: str) -> list[str]:
    """The parameters in `text`; a comma inside brackets belongs to a default value."""
    without_brackets = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)
    return [part.strip() for part in without_brackets.split(",") if part.strip()]


def name_of(parameter: str) -> str:
    """The bare name in "axis=None", "dtype: DTypeLike = float" or "int axis"."""
    return re.split(r"[:=]", parameter)[0].split()[-1]


def describe(value: Any) -> str:
    """The entry of surface.json for one name."""
    if isinstance(value, cupy.ufunc):
        return "ufunc"
    if isinstance(value, type):
        return "type"
    if callable(value):
        return signature(value)
    return "value"


def surface(owner: Any) -> dict[str, str]:
    """Every public name of a module or class, and its description."""
    names = [name for name in dir(owner) if not name.startswith("_") and name != "annotations"]
    members = {name: getattr(owner, name) for name in names}
    return {
        name: describe(value)
        for name, value in members.items()
        if not isinstance(value, ModuleType)
    }


if __name__ == "__main__":
    offered = {
        "version": cupy.__version__,
        "functions": surface(cupy),
        "linalg": surface(cupy.linalg),
        "methods": surface(cupy.ndarray),
    }
    path = Path(__file__).with_name("surface.json")
    path.write_text(json.dumps(offered, indent=1, sort_keys=True) + "\n")
