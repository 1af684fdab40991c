"""The contender PyTorch, eager: the assignment's model, attention written out."""

import math
import sys

import torch
from common import ADAM, SIZES, arguments, batch, initial_values, serve
from torch import nn
from torch.nn import functional as F

sdpa, keep = "--sdpa" in sys.argv, "--keep" in sys.argv
sys.argv = [word for word in sys.argv if word not in ("--sdpa", "--keep")]
if keep:  # the setting that tinyattn's command line makes for itself
    from tinyattn.backend import keep_freed_memory

    keep_freed_memory()
options = arguments()
size = SIZES[options.size]
C, H, T = size["width"], size["heads"], size["context"]
torch.set_num_threads(options.threads)
torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(C, C) for _ in range(4))
        self.drop_weights, self.drop = nn.Dropout(options.dropout), nn.Dropout(options.dropout)
        self.register_buffer("hidden", torch.ones(T, T).triu(1).bool(), persistent=False)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, H, C // H).transpose(1, 2)
                   for f in (self.query, self.key, self.value))  # fmt: skip
        if sdpa:
            rate = options.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(C // H)
            scores = scores.masked_fill(self.hidden[:T, :T], -1e10)
            y = self.drop_weights(scores.softmax(-1)) @ v
        return self.drop(self.out(y.transpose(1, 2).reshape(B, T, C)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.attention, self.norm_2 = nn.LayerNorm(C), Attention(), nn.LayerNorm(C)
        self.expand, self.contract = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.drop = nn.Dropout(options.dropout)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        approximate = "none" if options.gelu == "exact" else "tanh"
        h = F.gelu(self.expand(self.norm_2(x)), approximate=approximate)
        return x + self.drop(self.contract(h))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(size["vocabulary"], C), nn.Embedding(T, C)
        self.drop = nn.Dropout(options.dropout)
        self.blocks = nn.ModuleList(Block() for _ in range(size["layers"]))
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, size["vocabulary"], bias=False)

    def forward(self, ids):
        x = self.drop(self.embedding(ids) + self.positions.weight[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def our_name(name: str) -> str:
    """A parameter's name in tinyattn."""
    for part in ("expand", "contract"):
        name = name.replace(f".{part}.", f".feedforward.{part}.")
    return name.replace("weight", "gain") if "norm" in name else name


model = GPT()
names = {name: our_name(name) for name, _ in model.named_parameters()}
matrices = {n for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n
            and "position" not in n}  # fmt: skip
shapes = {names[n]: tuple(p.shape)[:: -1 if n in matrices else 1]
          for n, p in model.named_parameters()}  # fmt: skip
values = initial_values(shapes)
with torch.no_grad():
    for name, parameter in model.named_parameters():
        value = torch.from_numpy(values[names[name]].copy())
        parameter.copy_(value.T if name in matrices else value)
groups = [
    {"params": [p for n, p in model.named_parameters() if n in matrices],
         "weight_decay": ADAM["weight_decay"]},
    {"params": [p for n, p in model.named_parameters() if n not in matrices], "weight_decay": 0.0},
]  # fmt: skip
optimizer = torch.optim.AdamW(
    groups, lr=ADAM["learning_rate"], betas=ADAM["betas"], eps=ADAM["eps"]
)
inputs, targets = (torch.from_numpy(a) for a in batch(size, options.batch))


def step():
    optimizer.zero_grad(set_to_none=True)
    logits = model(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)
    loss.backward()
    optimizer.step()
    return loss.item()


serve(step)
