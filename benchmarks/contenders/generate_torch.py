"""The contender PyTorch, writing: greedy, with a cache.

Prompts of different lengths are padded on the left, so that all texts grow at the same place; a
mask hides the padding, and positions count from each text's first symbol.
"""

import torch
from common import SIZES, choose, options, prompts
from serving import serve
from torch_gpt import GPT

parser = options()
parser.add_argument("--count", type=int, default=120, help="symbols to write")
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
    """The scores of the symbol after `ids` (B, n), which stand at `start` in the padded texts."""
    stop = start + ids.shape[1]
    positions = (torch.arange(start, stop) - padding[:, None]).clamp(min=0)
    causal, allowed = ids.shape[1] > 1, None
    if padding.any():
        keys, queries = torch.arange(stop), torch.arange(start, stop)
        allowed = (keys >= padding[:, None])[:, None, None] & (keys <= queries[:, None])
        allowed |= keys == queries[:, None]  # so that padding has somewhere to look
        causal = False
    x = model.embedding(ids) + model.positions(positions)
    for block, (K, V) in zip(model.blocks, cache, strict=True):
        q, K[:, :, start:stop], V[:, :, start:stop] = block.attention.split(block.norm_1(x))
        y = block.attention.mix(q, K[:, :, :stop], V[:, :, :stop], allowed, causal)
        x = x + block.attention.merge(y)
        x = x + block.feedforward(block.norm_2(x))
    return model.head(model.norm(x[:, -1]))


@torch.inference_mode()
def written() -> list[list[int]]:
    room = (B, H, longest + chosen.count, D)
    cache = [(torch.empty(room), torch.empty(room)) for _ in model.blocks]
    ids, start, steps = padded, 0, []
    for _ in range(chosen.count):
        logits = next_logits(ids, start, cache)
        start += ids.shape[1]
        ids = logits.argmax(-1, keepdim=True)
        steps.append(ids)
    return torch.cat(steps, 1).tolist()


serve(written, f"torch {torch.__version__}")
