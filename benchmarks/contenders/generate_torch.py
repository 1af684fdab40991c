"""The contender PyTorch, generation: greedy, with a cache.

Prompts of different lengths are padded on the left, so that all sequences grow at the same index. A
mask hides the padding, and positions count from the first token of each sequence.
"""

import torch
from common import SIZES, choose, options, prompts
from serving import serve
from torch_gpt import GPT

parser = options()
parser.add_argument("--count", type=int, default=120, help="tokens to generate")
parser.add_argument("--sdpa", action="store_true", help="fused attention")
chosen = choose(parser)
torch.set_num_threads(chosen.threads)
size = SIZES[chosen.size]
model = GPT(size, fused=chosen.sdpa).eval()
begun = [torch.from_numpy(ids) for ids in prompts(size, chosen.batch)]
longest = max(len(ids) for ids in begun)
padding = torch.tensor([longest - len(ids) for ids in begun])
padded = torch.stack([torch.nn.functional.pad(ids, (longest - len(ids), 0)) for ids in begun])
B, H, D = len(begun), size["heads"], size["width"] // size["heads"]


def next_logits(ids, start: int, cache):
    """Logits of the token after `ids` (B, n), which begin at `start` in the padded sequences."""
    stop = start + ids.shape[1]
    positions = (torch.arange(start, stop) - padding[:, None]).clamp(min=0)
    causal, allowed = ids.shape[1] > 1, None
    if padding.any():
        keys, queries = torch.arange(stop), torch.arange(start, stop)
        allowed = (keys >= padding[:, None])[:, None, None] & (keys <= queries[:, None])
        allowed |= keys == queries[:, None]  # so that no row of the mask is empty
        causal = False
    x = model.embedding(ids) + model.positions(positions)
    for layer, (K, V) in zip(model.layers, cache, strict=True):
        q, K[:, :, start:stop], V[:, :, start:stop] = layer.attention.split(layer.norm_1(x))
        y = layer.attention.mix(q, K[:, :, :stop], V[:, :, :stop], allowed, causal)
        x = x + layer.attention.merge(y)
        x = x + layer.feedforward(layer.norm_2(x))
    return model.head(model.norm(x[:, -1]))


@torch.inference_mode()
def generated() -> list[list[int]]:
    shape = (B, H, longest + chosen.count, D)
    cache = [(torch.empty(shape), torch.empty(shape)) for _ in model.layers]
    ids, start, steps = padded, 0, []
    for _ in range(chosen.count):
        logits = next_logits(ids, start, cache)
        start += ids.shape[1]
        ids = logits.argmax(-1, keepdim=True)
        steps.append(ids)
    return torch.cat(steps, 1).tolist()


serve(generated, f"torch {torch.__version__}")
