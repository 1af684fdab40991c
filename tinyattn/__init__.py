"""tinyattn: attention, autograd and a GPT in plain NumPy, or CuPy. A book that runs.

The book, in reading order; a file imports only from files before its own:

    1 gradients     backend, graph, tensor, dispatch, op
    2 attention     ops/softmax, ops/dropout, ops/attention, ops/linear,
                    nn/module, nn/linear,
                    attention/masks, attention/block, attention/multihead
    3 a GPT         ops/normalization, ops/gelu, ops/embedding, nn/layers, limits, noise,
                    attention/cache, models/layer, models/gpt
    4 training      ops/loss, data/batches, training/optimizers, training/step, training/loop
    5 a task        data/forms, data/text, data/vocabulary, data/questions, checks,
                    data/corruption, tasks/task, tasks/examples, tasks/preparation,
                    tasks/knowledge
    6 more of it    names, calls, switches, manners, gpu, gradcheck, services, threads, ops/, nn/,
                    attention/table, models/config, attention/, models/, training/schedule,
                    training/muon, training/registry, training/settings, data/files,
                    training/checkpoint, training/metrics, training/signals, training/ranks,
                    training/keep, training/fit, data/, training/, tasks/
    7 theory        theory/, theory/claims/

What follows can be skipped: studies and tools that use the book, and what makes it fast, which may
be deleted (dispatch.py says how that goes).

    wings           parsing/, report/table, report/, cli/streams, cli/types, cli/options,
                    cli/outputs, cli/, parsing/parse_command, parsing/commands
    engine room     kernels/table, kernels/cpu/tiles, kernels/cpu/dropout, kernels/cpu/sums,
                    kernels/cpu/pairs, kernels/cpu/selected, kernels/cpu/orthogonal, kernels/cpu/,
                    kernels/cuda/, parallel/threads, parallel/flat, parallel/, measure/,
                    measure/compare_command, measure/profile_command, measure/commands

One letter an axis, and in nn/, attention/ and models/ one meaning:

    B batch             T query positions    S key positions    C model width
    H heads             D head width         F feed-forward     V vocabulary
    L latents           R projected length   K block, segment   E value width
    G global blocks     M, N any

Elsewhere too, but for these: in ops/ and kernels/ F is any width that a linear map makes, and K the
axis that a product sums over; in kernels/cpu/pairs.py K are the keys of a tile and Q its queries;
in kernels/cuda/ a program's T is the type of a number. Letters with an index, and those to which a
line of shapes gives a shape, as W (C, F), are arrays. theory/ has the letters of the sheets, which
its docstrings name.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import tinyattn.calls
import tinyattn.gpu
import tinyattn.manners  # noqa: F401
from tinyattn import ops
from tinyattn.gradcheck import gradcheck
from tinyattn.graph import no_grad
from tinyattn.switches import formulas
from tinyattn.tensor import Tensor

try:
    __version__ = version("tinyattn")
except PackageNotFoundError:  # run from a checkout that was not installed
    __version__ = "0+unknown"

for _room in ("kernels", "parallel"):  # the engine room, which may have been deleted
    if find_spec(f"tinyattn.{_room}"):
        import_module(f"tinyattn.{_room}")

__all__ = ["Tensor", "__version__", "formulas", "gradcheck", "no_grad", "ops"]
