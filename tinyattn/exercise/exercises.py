"""Wing, exercise: the table of exercises, in reading order."""

from __future__ import annotations

from tinyattn import graph, ops
from tinyattn.attention import masks, multihead
from tinyattn.exercise.exercise import Exercise
from tinyattn.training import optimizers

STEP = """\
t is the number of the step, from 1; lr is the learning rate; decay is the weight decay coefficient.
The function returns None."""

PULL = """\
`node.pull(g, keep)` returns pairs: an input of the node, and the gradient that the node contributes
to it. The `number` of a node is higher than those of its inputs; `help(Node)` prints more. The
order of the result does not matter."""
NOT_CHECKED = """\
Dropout, arrays with ∞ or NaN, and axes of length 0 are not checked. So you may ignore `dropout` and
`dropout_rng`."""

CHAPTERS = (
    # 1 gradients
    Exercise(graph.sweep, hint=PULL),
    # 2 attention
    Exercise(ops.softmax),
    Exercise(
        ops.dropout, hint="`dropout_rng.mask(rate).keep(xp, x.shape)` is True where k is not 0."
    ),
    Exercise(ops.attention, hint=NOT_CHECKED),
    Exercise(ops.linear),
    Exercise(masks.causal),
    Exercise(multihead.split_heads),
    # 3 a GPT
    Exercise(ops.layer_norm),
    Exercise(ops.gelu),
    Exercise(ops.embedding),
    # 4 training
    Exercise(ops.cross_entropy),
    Exercise(optimizers.sgd, optimizers.SGD, ("w", "m"), STEP),
    Exercise(optimizers.adamw, optimizers.AdamW, ("w", "m", "v"), STEP),
    Exercise(optimizers.clip_gradients, changes=("gradients",)),
    # 6 more of it
    Exercise(ops.matmul),
    Exercise(ops.rotate),
)
EXERCISES = {exercise.name: exercise for exercise in CHAPTERS}
"""Every exercise by its name."""
