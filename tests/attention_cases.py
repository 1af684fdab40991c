"""The test data of an attention type: one file for each type in tests/attention/cases/.

The file of `random-synthesizer` is random_synthesizer.py. It must have

    USES         how the type can be used: True is causal, False is bidirectional
    attends      (block, T, causal) -> (T, T): which inputs (across) reach which outputs (down)
    formula      (np, parameters, block, x, causal, padded) -> the block's output, in plain NumPy;
                 also called with HIPS autograd's NumPy (formulas.py has the pieces)
    parameters   (block) -> the number of its parameters, counted by hand

and may have the names of DEFAULTS.
"""

import importlib.util
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from formulas import Parameters, linear, split

from tinyattn.attention import ARRANGEMENTS, ATTENTION
from tinyattn.models import ATTENTION_TYPES

FOLDER = Path(__file__).parent / "attention" / "cases"


def values(p: Parameters, block: Any, x: Any, padded: Any) -> Any:
    """The values that the weights multiply: (B, H, any, D)."""
    return split(np, linear(np, p, "value", x), block.heads)


DEFAULTS: dict[str, Any] = {
    "OPTIONS": {},  # lists and segments so short that a dozen positions have several
    "COUNTED": None,  # other options, with which its multiply-adds are counted
    "ALONE": {},  # options with which padding changes nothing
    "ALWAYS_THERE": False,  # whether queries attend to something if all keys are hidden
    "OWN_MASK": False,  # whether it keeps a mask for backward that its formula leaves out
    "values": values,
}


def file_of(name: str) -> Path:
    """The file about an attention type."""
    return FOLDER / f"{name.replace('-', '_')}.py"


@cache
def about(name: str) -> Any:
    """The names of the file about an attention type, and defaults for the others."""
    file = file_of(name)
    needed = {"USES", "attends", "parameters", *(["formula"] if name not in ARRANGEMENTS else [])}
    if not file.exists():
        raise AssertionError(
            f"attention {name!r} has no tests: write {file}, with {', '.join(sorted(needed))}, as "
            "tests/attention_cases.py explains; multihead.py beside it is the shortest"
        )
    spec = importlib.util.spec_from_file_location(f"case_{file.stem}", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = sorted(needed - vars(module).keys())
    assert not missing, f"{file} has no {', '.join(missing)}: see tests/attention_cases.py"
    found = SimpleNamespace(**{**DEFAULTS, **vars(module)})
    found.COUNTED = found.COUNTED or found.OPTIONS
    return found


def with_options(name: str, options: dict[str, int] | None = None) -> str:
    """The attention type and its options, by default the small ones, as users write them."""
    options = about(name).OPTIONS if options is None else options
    return ",".join([name, *(f"{key}={value}" for key, value in options.items())])


def attends(block: Any, T: int, causal: bool) -> np.ndarray:
    """Which inputs reach which outputs of a block, by the file about its type."""
    (name,) = [name for name, made in ATTENTION.items() if made is type(block)]
    seen: np.ndarray = about(name).attends(block, T, causal)
    return seen


def stray_files() -> set[Path]:
    """Files about attention types that do not exist."""
    return {*FOLDER.glob("*.py")} - {file_of(name) for name in ATTENTION_TYPES}
