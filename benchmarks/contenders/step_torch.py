"""The contender PyTorch: a training step, eager or compiled."""

import torch
from common import ADAM, SIZES, batch, options
from serving import serve
from torch import nn
from torch.nn import functional as F
from torch_gpt import GPT

parser = options()
parser.add_argument("--sdpa", action="store_true", help="fused attention")
parser.add_argument("--compile", action="store_true", help="torch.compile with inductor")
parser.add_argument("--keep", action="store_true", help="let the C library keep freed memory")
chosen = parser.parse_args()
if chosen.keep:  # the setting that tinyattn's command line makes for itself
    from tinyattn.backend import keep_freed_memory

    keep_freed_memory()
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
forward = torch.compile(model) if chosen.compile else model


def step() -> float:
    optimizer.zero_grad(set_to_none=True)
    logits = forward(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)
    loss.backward()
    optimizer.step()
    return loss.item()


def warm_up() -> None:
    """A step that changes nothing: PyTorch loads what it needs, and AdamW takes its moments.

    tinyattn's AdamW has them before its first step too, so neither side's count as its memory.
    """
    (0 * model(inputs[:1]).sum()).backward()  # from gradients of 0, moments of 0
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
