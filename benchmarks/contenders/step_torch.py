"""The contender PyTorch: a training step, eager or compiled."""

import torch
from common import ADAM, SIZES, batch, choose, options
from serving import serve
from torch import nn
from torch.nn import functional as F
from torch_gpt import GPT

parser = options()
parser.add_argument("--sdpa", action="store_true", help="fused attention")
parser.add_argument("--compile", action="store_true", help="torch.compile with inductor")
parser.add_argument("--micro", type=int, help="sequences at a time; gradients are added")
chosen = choose(parser)
torch.set_num_threads(chosen.threads)
torch.manual_seed(0)
size = SIZES[chosen.size]
model = GPT(size, chosen.dropout, chosen.gelu, chosen.sdpa)
matrices = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
rest = [p for p in model.parameters() if all(p is not m for m in matrices)]
groups = [{"params": matrices, "weight_decay": ADAM["weight_decay"]},
          {"params": rest, "weight_decay": 0.0}]  # fmt: skip
optimizer = torch.optim.AdamW(
    groups, lr=ADAM["learning_rate"], betas=ADAM["betas"], eps=ADAM["eps"], fused=True
)
inputs, targets = (torch.from_numpy(a) for a in batch(size, chosen.batch))
trained = int((targets != 0).sum())


def loss_of(ids, wanted):
    logits = model(ids).flatten(0, 1)
    total = F.cross_entropy(logits, wanted.flatten(), ignore_index=0, reduction="sum")
    return total / trained


run = torch.compile(loss_of) if chosen.compile else loss_of


def step() -> float:
    optimizer.zero_grad(set_to_none=True)
    at_a_time, total = chosen.micro or len(inputs), 0.0
    for ids, wanted in zip(inputs.split(at_a_time), targets.split(at_a_time), strict=True):
        loss = run(ids, wanted)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def warm_up() -> None:
    """A step that changes nothing: PyTorch loads what it needs, and AdamW creates its state.

    tinyattn's AdamW has its state before the first step too, so it is measured for neither.
    """
    (0 * model(inputs[:1]).sum()).backward()  # gradients of 0 give a state of 0
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for group in optimizer.param_groups:
        group["lr"] = ADAM["learning_rate"]
    for state in optimizer.state.values():
        state["step"].zero_()
    optimizer.zero_grad(set_to_none=True)


warm_up()
serve(step, f"torch {torch.__version__}")
