"""tinyattn: attention, autograd and a GPT in plain NumPy, or CuPy. A book that runs.

Read it in this order; a file imports only from chapters before its own.

    backend     1   which module made this array; host and device        sums: of very many numbers
    names       1   what a wrong name was meant to be                    limits: numbers to be meant
    threads     1   who else could do a part of the work                 noise: random bits
    twins       1   what is another program on a GPU
    graph       2   how a gradient finds its way back
    tensor      2   an array that remembers how it was made
    signature   2   how an operation may be called                       op: what makes an operation
    ops/        3   operations: value, gradient, equation
    cuda/       3   the same as programs for a GPU                       gradcheck: are they right?
    nn/         4   modules own what is learned
    attention/  5   who looks at whom, and how
    models/     6   a GPT, and the text it writes
    data/       7   characters, exercises, questions, a made-up world
    training/   8   optimisers, schedules, the loop, checkpoints
    tasks/      9   does pretraining put knowledge into weights?
    theory/     10  what attention can and cannot do: five answer sheets, checked
    report/     11  tables, pages, pictures
    parsing/    11  a wing: heads as a dependency parser
    parallel/   11  engine room: threads, processes, the step they share
    measure/    11  engine room: what a step and an attention cost
    cli         12  the command line

One letter an axis, and in nn/, attention/ and models/ one meaning:

    B batch             T query positions    S key positions    C model width
    H heads             D head width         F feed-forward     V vocabulary
    L latents           R projected length   K block, segment   E value width
    G global blocks     M, N any

Elsewhere too, but for these: in ops/ and cuda/ F is any width that a linear map makes, and K the
axis that a product sums over; in ops/tiling.py K are the keys of a block and Q its queries; in
cuda/ a program's T is the type of a number. Letters with an index, and those to which a line of
shapes gives a shape, as W (C, F), are arrays. theory/ has the letters of the sheets, which its
docstrings name.
"""

from importlib.metadata import PackageNotFoundError, version

from importlib import import_module
from importlib.util import find_spec

from tinyattn import ops
from tinyattn.dispatch import formulas
from tinyattn.gradcheck import gradcheck
from tinyattn.graph import no_grad
from tinyattn.tensor import Tensor

try:
    __version__ = version("tinyattn")
except PackageNotFoundError:  # run from a checkout that was not installed
    __version__ = "0+unknown"

for _room in ("calls", "manners", "gpu", "kernels", "parallel"):
    if find_spec(f"tinyattn.{_room}"):  # the engine room may have been deleted
        import_module(f"tinyattn.{_room}")

__all__ = ["Tensor", "__version__", "formulas", "gradcheck", "no_grad", "ops"]
