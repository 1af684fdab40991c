"""tinyattn: attention, autograd and a GPT in plain NumPy, or CuPy. A book that runs.

The book, in reading order; a file imports only from files before its own:

    1 gradients     backend, graph, tensor, dispatch, op
    2 attention     ops/softmax, ops/dropout, ops/attention, ops/linear,
                    nn/module, nn/linear_layer,
                    attention/masks, attention/block, attention/multihead
    3 a GPT         ops/normalization, ops/gelu, ops/embedding, nn/hooks, nn/layers, limits, rng,
                    attention/cache, models/layer, models/gpt
    4 training      ops/loss, data/batches, training/optimizers, training/step, training/loop
    5 a task        data/forms, data/text, data/vocabulary, data/questions, checks,
                    data/corruption, tasks/task, tasks/examples, tasks/preparation,
                    tasks/knowledge
    6 more of it    names, calls, switches, manners, gpu, gradcheck, services, workers, ops/, nn/,
                    attention/lookup, models/config, attention/, models/, training/schedule,
                    training/muon, training/optimizer_table, training/settings, data/files,
                    training/checkpoint, training/metrics, training/signals, training/ranks,
                    training/keep, training/fit, data/, training/, tasks/
    7 theory        theory/, theory/laws/, theory/claims/

The rest can be skipped. The wings are studies and tools that use the book. The engine room holds
fast kernels, threads and measurements, and may be deleted (dispatch.py).

    wings           parsing/, report/text_table, report/, cli/streams, cli/types, cli/own_code,
                    cli/options, cli/outputs, cli/, parsing/parse_command,
                    parsing/parsing_commands, trace/, trace/edit_command,
                    trace/trace_command, trace/trace_commands, explore/, explore/explore_command,
                    explore/explore_commands, check/, check/check_command, check/check_commands,
                    exercise/exercise, exercise/, exercise/exercise_command,
                    exercise/exercise_commands
    engine room     kernels/register, kernels/cpu/tiles, kernels/cpu/dropout, kernels/cpu/sums,
                    kernels/cpu/pairs, kernels/cpu/selected, kernels/cpu/orthogonal, kernels/cpu/,
                    kernels/cuda/, kernels/numba/, parallel/threads, parallel/flat, parallel/,
                    measure/, measure/compare_command, measure/profile_command,
                    measure/measure_commands

One letter names one axis. In nn/, attention/ and models/ the letters mean:

    B batch             T query positions    S key positions    C width, d_model
    H heads             D head width         F feed-forward     V vocabulary
    L latents           R projected length   K block, segment   E value width
    G global blocks     M, N any

Other folders use the same letters, except these. In ops/ and kernels/, F is the output width of a
linear map, and K the axis that a matrix product sums over. In kernels/cpu/pairs.py, a tile has K
keys and Q queries. In kernels/cuda/, T is the C++ type of an element. A letter with an index, or
with a shape in a line of shapes, as W (C, F), is an array. theory/ has the letters of the answer
sheets, which are students' published solutions of assignment 5; its docstrings explain them.
"""

from importlib import import_module
from importlib.util import find_spec

import tinyattn.calls
import tinyattn.gpu
import tinyattn.manners  # noqa: F401
from tinyattn import ops
from tinyattn.gradcheck import gradcheck
from tinyattn.graph import no_grad
from tinyattn.switches import formulas
from tinyattn.tensor import Tensor

__version__: str

for _room in ("kernels", "parallel"):  # the engine room, which may have been deleted
    if find_spec(f"tinyattn.{_room}"):
        import_module(f"tinyattn.{_room}")


def __getattr__(name: str) -> str:
    """`__version__`, read when it is used: looking for it takes a third of the import's time."""
    if name != "__version__":
        raise AttributeError(f"module 'tinyattn' has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("tinyattn")
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "0+unknown"


__all__ = ["Tensor", "__version__", "formulas", "gradcheck", "no_grad", "ops"]
