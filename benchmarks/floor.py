"""How long the multiply-adds of a race would take alone, at the rate of this processor.

On a processor that multiplies slower, all of a race is slower, but not in equal proportion. So a
time means little without this rate. It is the rate of one thread in large float32 matrix products
while all threads multiply, as `tinyattn profile` measures it. Only the multiply-adds that the
result needs are counted (tinyattn/measure/counting.py).
"""

import sys
from pathlib import Path

from workloads import Race

from tinyattn.data.batches import Batch
from tinyattn.graph import no_grad
from tinyattn.measure import Observer, multiply_adds
from tinyattn.measure.observer import observed
from tinyattn.measure.profile import product_rate
from tinyattn.models import GPT, GPTConfig
from tinyattn.models.generate import continuations
from tinyattn.parallel.threads import available_cores, one_blas_thread
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tensor import gradients

sys.path.append(str(Path(__file__).resolve().parent / "contenders"))
from attention_inputs import inputs
from common import SIZES, batch, prompts

ROUNDS = 21


def thread_rate() -> float:
    """Multiply-adds per second of one thread while all threads multiply; the best of ROUNDS."""
    with one_blas_thread():
        return product_rate(available_cores(), ROUNDS)


def needed(race: Race) -> float:
    """The multiply-adds of one step of tinyattn's contender in this race."""
    count = {
        "step_tinyattn.py": _of_step,
        "generate_tinyattn.py": _of_generation,
        "attention_tinyattn.py": _of_attention,
    }
    return count[race.ours.script](race)


def floor(race: Race, rate: float) -> float:
    """Seconds that these would take at `rate`, shared by as many threads as have a sequence."""
    threads = min(race.options.get("threads", 1), race.options.get("batch", 1))
    return needed(race) / (rate * threads)


def _of_step(race: Race) -> float:
    """All sequences cost the same, because the contender computes all positions."""
    size = SIZES[race.options.get("size", "a5")]
    observer = Observer()
    with observed(observer.observe):
        loss = language_model_loss(GPT(GPTConfig(**size, dropout=0.0)))
        gradients(loss(Batch(*batch(size, 1)), None, 1.0))
    return race.options["batch"] * _sum(observer)


def _of_generation(race: Race) -> float:
    size = SIZES[race.options.get("size", "a5")]
    begun = prompts(size, race.options["batch"])
    observer = Observer()
    with observed(observer.observe), no_grad():
        continuations(GPT(GPTConfig(**size, dropout=0.0)), begun, race.options["count"], workers=1)
    return _sum(observer)


def _of_attention(race: Race) -> float:
    q, k, v, *_ = inputs(race.options["length"])
    forward, backward = multiply_adds("attention", (q, k, v), {"causal": True}, q)
    return forward + sum(backward)


def _sum(observer: Observer) -> float:
    return sum(note.multiply_adds for note in observer.notes)
