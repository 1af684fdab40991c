"""Training steps on a GPU: python benchmarks/gpu.py

tinyattn and PyTorch take the same steps of the model of A5 (assignment 5 of Stanford CS224N) in
turn: in float32, in TF32 and in bfloat16; PyTorch also compiled. Then follow loss curves of GPU and
CPU, and generation. `gpu_check.sh` runs this file. With --dry it runs a small model on the CPU, on
CuPy as the tests have it (tests/cuda_on_cpu/); its times then mean nothing.
"""

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path += [str(HERE / "contenders"), str(HERE.parent / "tests")]

from common import ADAM, SIZES, initial_values  # noqa: E402
from machine import machine  # noqa: E402
from ratios import ratios, spread  # noqa: E402

Steps = Callable[[int], None]
"""A function that takes a number of steps and returns when they are done."""


def batch(size: dict[str, int], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random sequences, in which every token is a target."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, size["vocabulary"], (rows, size["context"] + 1))
    return np.ascontiguousarray(ids[:, :-1]), np.ascontiguousarray(ids[:, 1:])


def ours(size: dict[str, int], rows: int, precision: str, stack: contextlib.ExitStack) -> Steps:
    """The step of tinyattn, as `pretrain --device cuda` takes it."""
    import cupy

    from tinyattn.data import Batch
    from tinyattn.kernels.cuda.precision import matmul_precision
    from tinyattn.models import GPT, GPTConfig
    from tinyattn.parallel.shards import ShardedStep as Step
    from tinyattn.tasks.knowledge import language_model_loss
    from tinyattn.training.optimizers import AdamW

    model = GPT(GPTConfig(**size, dropout=0.1), device="cuda")
    model.load_state(initial_values(size))
    beta1, beta2 = ADAM["betas"]
    optimizer = AdamW(model.named_parameters(), beta1=beta1, beta2=beta2, eps=ADAM["eps"])
    take = stack.enter_context(Step(language_model_loss(model), [optimizer], workers=1))
    examples, number = Batch(*batch(size, rows)), iter(range(10**9))

    def steps(count: int) -> None:
        with matmul_precision(cupy, precision):
            for _ in range(count):
                result = take(examples, next(number), ADAM["learning_rate"])
        result.check()  # waits

    return steps


def theirs(size: dict[str, int], rows: int, precision: str, compiled: bool, device: str) -> Steps:
    """The same in PyTorch."""
    import torch
    from torch.nn import functional as F
    from torch_gpt import GPT

    model = GPT(size, 0.1).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=ADAM["learning_rate"], betas=ADAM["betas"], eps=ADAM["eps"],
        weight_decay=ADAM["weight_decay"], fused=True,
    )  # fmt: skip
    host = [torch.from_numpy(a) for a in batch(size, rows)]

    def loss_of(ids: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids).flatten(0, 1), wanted.flatten())

    run = torch.compile(loss_of) if compiled else loss_of

    def steps(count: int) -> None:
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        for _ in range(count):
            ids, wanted = (a.to(device, non_blocking=True) for a in host)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
                loss = run(ids, wanted)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        loss.item()  # waits

    return steps


def race(
    contenders: dict[str, Callable[[], Steps]], rounds: int, turn: int
) -> dict[str, list[float]]:
    """Seconds per step of each contender, for each round; in a round all take turns."""
    ready: dict[str, Steps] = {}
    for name, make in contenders.items():
        try:
            steps = make()
            steps(turn)  # compiles and allocates
            ready[name] = steps
        except Exception as error:  # if a peer cannot run, the others do
            if name.startswith("tinyattn"):
                raise
            print(f"{name} cannot run: {error}", file=sys.stderr)
    seconds: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, steps in ready.items():
            began = time.perf_counter()
            steps(turn)
            seconds[name].append((time.perf_counter() - began) / turn)
    return seconds


def table(size: dict[str, int], rows: int, chosen: argparse.Namespace) -> Iterator[str]:
    """Time and tokens per second of each, and its ratio to PyTorch of the same precision."""
    with contextlib.ExitStack() as stack:
        contenders: dict[str, Callable[[], Steps]] = {
            f"tinyattn {precision}": partial(ours, size, rows, precision, stack)
            for precision in ("float32", "tf32", "bfloat16")
        }
        try:
            import torch
        except (ImportError, OSError) as error:
            print(f"without PyTorch, tinyattn runs alone: {error}", file=sys.stderr)
        else:
            device = "cpu" if chosen.dry else "cuda"
            ways = [("float32", False), ("tf32", False), ("bfloat16", False), ("tf32", True)]
            for precision, compiled in ways[: 1 if chosen.dry else None]:
                name = f"torch {precision}{', compiled' * compiled}"
                contenders[name] = partial(theirs, size, rows, precision, compiled, device)
            yield f"torch {torch.__version__}\n"
        seconds = race(contenders, chosen.rounds, chosen.turn)
    yield (
        f"batch {rows}, dropout 0.1, {size['layers']} layers of width {size['width']}; tinyattn "
        "uses TF32 and bfloat16 in linear maps, torch in attention too\n"
    )
    yield "| contender | time per step | tokens a second | ratio to torch eager, same precision |"
    yield "| --- | --- | --- | --- |"
    positions = rows * size["context"]
    for name, times in seconds.items():
        step = statistics.median(times)
        peer = seconds.get("torch " + name.split()[1].rstrip(","))
        ratio = spread(ratios(times, peer)) if peer and name.startswith("tinyattn") else ""
        yield f"| {name} | {1000 * step:.2f} ms | {positions / step:,.0f} | {ratio} |"


def curves(size: dict[str, int], rows: int, count: int) -> str:
    """How much the losses of `count` steps differ between the GPU and the CPU."""
    from tinyattn.data import Batch
    from tinyattn.models import GPT, GPTConfig
    from tinyattn.parallel.shards import ShardedStep as Step
    from tinyattn.tasks.knowledge import language_model_loss
    from tinyattn.training.optimizers import AdamW

    losses = []
    for device in ("cpu", "cuda"):
        model = GPT(GPTConfig(**size, dropout=0.1), device=device)
        model.load_state(initial_values(size))
        workers = None if device == "cpu" else 1
        with Step(language_model_loss(model), [AdamW(model.named_parameters())],
                  workers=workers) as take:  # fmt: skip
            examples = Batch(*batch(size, rows))
            losses.append(np.array([take(examples, i, 1e-3).loss for i in range(count)]))
    apart = np.abs(losses[1] - losses[0])
    return (f"{count} steps of batch {rows} on CPU and GPU, with dropout: losses from "
            f"{losses[0][0]:.3f} to {losses[0][-1]:.3f} nats, at most {apart.max():.1e} apart, "
            f"{apart[:10].max():.1e} in the first ten")  # fmt: skip


def generation(size: dict[str, int], rows: int, count: int) -> str:
    """Tokens per second that the GPU generates, greedily, with a cache."""
    from tinyattn.models import GPT, GPTConfig, continuations

    model = GPT(GPTConfig(**size), device="cuda")
    prompts = [np.arange(1, 9)] * rows
    continuations(model, prompts, count)
    began = time.perf_counter()
    continuations(model, prompts, count)
    seconds = time.perf_counter() - began
    return (
        f"generation of {count} tokens, batch {rows}: {rows * count / seconds:,.0f} tokens a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--dry", action="store_true", help="a small model, on the CPU")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turn", type=int, default=10, help="steps of each in a round")
    chosen = parser.parse_args()
    if chosen.dry:
        import cuda_on_cpu

        cuda_on_cpu.start()
    from tinyattn.gpu import describe_gpu

    size, rows, count, batches, tokens = SIZES["a5"], 128, 200, (1, 32), 120
    if chosen.dry:
        size, rows, count, batches, tokens = SIZES["tiny"], 4, 5, (1, 2), 8
    print(machine(), *describe_gpu(), sep="\n\n", end="\n\n")
    for line in table(size, rows, chosen):
        print(line, flush=True)
    print(f"\n{curves(size, min(rows, 32), count)}\n")
    for number in batches:
        print(generation(size, number, tokens), end="\n\n")


if __name__ == "__main__":
    main()
