"""What tests are told about a kind of attention: a file for each in tests/attention/kinds/.

The file of `random-synthesizer` is random_synthesizer.py. It must have

    USES         what the kind can be used for: True is causal, False is looking both ways
    sees         (block, T, causal) -> (T, T): which inputs (across) reach which outputs (down)
    formula      (np, parameters, block, x, causal, padded) -> the block's answers, in plain NumPy;
                 also called with HIPS autograd's NumPy (formulas.py has the pieces)
    parameters   (block) -> how many numbers it learns, counted by hand

and may have what DEFAULTS has.
"""

import importlib.util
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from formulas import Parameters, linear, split

from tinyattn.attention import ARRANGEMENTS, ATTENTION
from tinyattn.models import MECHANISMS

FOLDER = Path(__file__).parent / "attention" / "kinds"


def values(p: Parameters, block: Any, x: Any, padded: Any) -> Any:
    """What the weights weigh: (B, H, any, D)."""
    return split(np, linear(np, p, "value", x), block.heads)


DEFAULTS: dict[str, Any] = {
    "OPTIONS": {},  # lists so short, and segments so small, that a dozen positions have several
    "COUNTED": None,  # other options under which its multiply-adds are counted
    "ALONE": {},  # options with which what fills a text up changes nothing
    "ALWAYS_THERE": False,  # whether there is something to see if all keys are hidden
    "OWN_MASK": False,  # whether it keeps a mask for backward, which its formula leaves out
    "values": values,
}


def file_of(name: str) -> Path:
    """Where tests are told about a kind."""
    return FOLDER / f"{name.replace('-', '_')}.py"


@cache
def told(name: str) -> Any:
    """What the file of a kind says, and the defaults of what it does not say."""
    file = file_of(name)
    needed = {"USES", "sees", "parameters", *(["formula"] if name not in ARRANGEMENTS else [])}
    if not file.exists():
        raise AssertionError(
            f"attention {name!r} has no tests: write {file}, with {', '.join(sorted(needed))}, as "
            "tests/kinds.py explains; multihead.py beside it is the shortest"
        )
    spec = importlib.util.spec_from_file_location(f"kinds_{file.stem}", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = sorted(needed - vars(module).keys())
    assert not missing, f"{file} has no {', '.join(missing)}: see tests/kinds.py"
    said = SimpleNamespace(**{**DEFAULTS, **vars(module)})
    said.COUNTED = said.COUNTED or said.OPTIONS
    return said


def written(name: str, options: dict[str, int] | None = None) -> str:
    """The kind and its options, by default the small ones, as users write them."""
    options = told(name).OPTIONS if options is None else options
    return ",".join([name, *(f"{key}={value}" for key, value in options.items())])


def sees(block: Any, T: int, causal: bool) -> np.ndarray:
    """What the file of the block's kind says of it."""
    (name,) = [name for name, kind in ATTENTION.items() if kind is type(block)]
    seen: np.ndarray = told(name).sees(block, T, causal)
    return seen


def stray_files() -> set[Path]:
    """Files about kinds that do not exist."""
    return {*FOLDER.glob("*.py")} - {file_of(name) for name in MECHANISMS}
