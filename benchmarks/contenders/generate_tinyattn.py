"""The contender tinyattn, generation: greedy, with a cache. The result is the generated ids."""

import numpy as np
from common import SIZES, choose, initial_values, options, prompts
from serving import serve

import tinyattn
from tinyattn.models import GPT, GPTConfig
from tinyattn.models.generate import continuations

parser = options()
parser.add_argument("--count", type=int, default=120, help="tokens to generate")
chosen = choose(parser)
size = SIZES[chosen.size]
model = GPT(GPTConfig(**size, dropout=0.0))
model.load_state(initial_values(size))
begun = prompts(size, chosen.batch)


def generated() -> list[list[int]]:
    found = continuations(model, begun, chosen.count, workers=chosen.threads)
    return [ids.tolist() for ids in found]


serve(generated, f"NumPy {np.__version__}, tinyattn {tinyattn.__version__}")
