"""The workloads: every race, its peers, and the targets.

A target is a ratio of tinyattn's time (or memory) to the peer's that was set before the
measurement. Both sides use the exact GELU unless the title says otherwise. A5 is assignment 5 of
Stanford CS224N.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from contender import Program
from race import Length

STEP = Program("tinyattn", "step_tinyattn.py", ("--keep",))
EAGER = Program("torch", "step_torch.py")
SDPA = Program("torch", "step_torch.py", ("--sdpa",))
COMPILED = Program("torch", "step_torch.py", ("--compile",), command="g++")
KEPT = Program("torch", "step_torch.py", ("--keep",))
MICRO = Program("torch", "step_torch.py", ("--micro", "8"))
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Race:
    """One workload.

    Args:
        part: its name for `--only`.
        options: options of all contenders.
        peers: programs by their names in the table.
        ours: the program of tinyattn.
        time: targets for the time, by peer.
        memory: targets for the memory, by peer; None compares without a target.
        fastest: the target for the peer with the smallest time.
        clock: "seconds" (wall-clock time), or "cpu" (CPU time of the process).
        memory_limit: the most megabytes that tinyattn may use.
        busy: the number of other processes that keep the cores busy.
    """

    part: str
    title: str
    options: Mapping[str, Any]
    peers: Mapping[str, Program]
    ours: Program = STEP
    time: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float | None] = field(default_factory=dict)
    fastest: float | None = None
    clock: str = "seconds"
    memory_limit: float | None = None
    busy: int = 0
    length: Length = field(default_factory=Length)


def races(threads: int) -> list[Race]:
    """All races; those that do not fix the number of threads use `threads`."""
    return [*_steps(threads), *_others(threads), *_generation(threads), *_attention(),
            _contended(threads), *_compiled(threads)]  # fmt: skip


def _steps(threads: int) -> list[Race]:
    """Training steps against PyTorch."""

    def step(title: str, peers: dict[str, Program], targets: dict[str, float], /,
             length: Length | None = None, memory: dict[str, float | None] | None = None,
             size: str = "a5", **options: Any) -> Race:  # fmt: skip
        named = f"{title} step, batch {options['batch']}, dropout {options['dropout']}"
        return Race("step", named, {"size": size, "threads": threads, **options}, peers,
                    time=targets, length=length or Length(turn=2), memory=memory or {})  # fmt: skip

    three = {"torch eager": EAGER, "torch SDPA": SDPA, "torch.compile": COMPILED}
    eager = {"torch eager": EAGER}
    return [
        step("A5", three, {"torch eager": 0.75, "torch SDPA": 0.78, "torch.compile": 0.88},
             batch=32, dropout=0),
        step("A5", {**three, "torch eager, kept": KEPT},
             {"torch eager": 0.66, "torch SDPA": 0.68, "torch.compile": 0.60},
             memory={"torch eager": 0.35}, batch=32, dropout=0.1),
        step("A5", eager, {"torch eager": 0.80}, Length(rounds=5), batch=8, dropout=0.1),
        step("A5", {**eager, "torch eager, 8 at a time": MICRO}, {"torch eager": 0.55},
             Length(launches=2), {"torch eager": 0.15, "torch eager, 8 at a time": None},
             batch=128, dropout=0.1),
        step("tiny", eager, {"torch eager": 1.0}, Length(rounds=8, turn=10), size="tiny",
             batch=32, dropout=0.1),
    ]  # fmt: skip


def _others(threads: int) -> list[Race]:
    """Training steps against other libraries; two have no exact GELU, and one is very slow.

    Those that compute in NumPy run a second time with --keep: as in tinyattn, freed memory is kept.
    """
    numpy = ("HIPS autograd", "MyGrad", "numpygrad")
    short = Length(launches=2, turn=2)

    def step(
        peers: dict[str, float], batch: int, dropout: float = 0.1, gelu: str = "exact"
    ) -> Race:
        named = f"A5 step, batch {batch}, dropout {dropout}{', tanh GELU' * (gelu == 'tanh')}"
        programs = {}
        for name in peers:
            environment = name.lower().split()[-1]
            programs[name] = Program(environment, f"step_{environment}.py")
            if name in numpy:
                programs[f"{name}, kept"] = replace(programs[name], options=("--keep",))
        options = {"batch": batch, "dropout": dropout, "gelu": gelu, "threads": threads}
        return Race("others", named, options, programs, time=peers, length=short)

    return [
        step({"HIPS autograd": 0.25, "JAX": 0.5}, 32),
        step({"JAX": 0.5}, 32, dropout=0),
        step({"MyGrad": 0.25, "numpygrad": 0.25}, 32, gelu="tanh"),
        step({"tinygrad": 0.25}, 8),
    ]


def _generation(threads: int) -> list[Race]:
    """Greedy generation with a cache, beside the fastest of several settings of PyTorch."""
    peers = {
        f"torch {attention}, {n} thread{'s' * (n > 1)}": Program(
            "torch", "generate_torch.py", (*flags, "--threads", str(n)))
        for attention, flags in (("eager", ()), ("SDPA", ("--sdpa",))) for n in sorted({1, threads})
    }  # fmt: skip
    ours = Program("tinyattn", "generate_tinyattn.py", ("--keep",))
    return [
        Race("generation", "generate 120 tokens, batch 1",
             {"batch": 1, "count": 120, "threads": threads}, peers, ours,
             fastest=0.5, length=Length(rounds=5, turn=2)),
        Race("generation", "generate 80 tokens, 32 prompts of 8 to 40",
             {"batch": 32, "count": 80, "threads": threads}, peers, ours,
             fastest=0.5, length=Length(rounds=5, turn=2)),
    ]  # fmt: skip


def _attention() -> list[Race]:
    """Attention alone, forward and backward, one thread; new processes for each length."""
    peers = {"torch eager": Program("torch", "attention_torch.py", settings=ONE_THREAD),
             "torch SDPA": Program("torch", "attention_torch.py", ("--sdpa",), ONE_THREAD),
    }  # fmt: skip
    ours = Program("tinyattn", "attention_tinyattn.py", settings=ONE_THREAD)
    return [
        Race("attention", f"attention, T = {T}", {"length": T}, peers, ours, clock="cpu",
             time={"torch SDPA": 1.15} if T == 4096 else {},
             memory=dict.fromkeys(peers), memory_limit=50 if T == 4096 else None,
             length=Length(launches=2, rounds=5, limit=25))
        for T in (128, 256, 512, 1024, 2048, 4096)
    ]  # fmt: skip


def _contended(threads: int) -> Race:
    """A step while other processes use the cores, beside the fastest setting of PyTorch."""
    passive = {"OMP_WAIT_POLICY": "PASSIVE"}
    peers = {
        "torch, 1 thread": Program("torch", "step_torch.py", ("--threads", "1")),
        f"torch, {threads} threads": EAGER,
        f"torch, {threads}, passive": Program("torch", "step_torch.py", settings=passive),
    }
    options = {"batch": 8, "dropout": 0.1, "threads": threads}
    return Race("busy", "A5 step, batch 8, 2 busy processes", options, peers, fastest=0.6, busy=2,
                length=Length(rounds=5, turn=2))  # fmt: skip


def _compiled(threads: int) -> list[Race]:
    """tinyattn with the loops that Numba compiles and without them, if Numba is installed."""
    if find_spec("numba") is None:
        return []
    attention = Program("tinyattn", "attention_tinyattn.py", settings=ONE_THREAD)
    generation = Program("tinyattn", "generate_tinyattn.py", ("--keep",))
    step = {"size": "a5", "threads": threads, "batch": 32}
    races = [
        ("A5 step, batch 32, dropout 0", STEP, step | {"dropout": 0}),
        ("A5 step, batch 32, dropout 0.1", STEP, step | {"dropout": 0.1}),
        ("tiny step, batch 32, dropout 0.1", STEP, step | {"size": "tiny", "dropout": 0.1}),
        ("generate 120 tokens, batch 1", generation,
         {"batch": 1, "count": 120, "threads": threads}),
        ("generate 80 tokens, 32 prompts of 8 to 40", generation,
         {"batch": 32, "count": 80, "threads": threads}),
        *((f"attention, T = {T}", attention, {"length": T}) for T in (128, 512, 4096)),
    ]  # fmt: skip

    def without(program: Program) -> Program:
        return replace(program, settings={**program.settings, "TINYATTN_FORMULAS": "numba"})

    return [
        Race("compiled", title, options, {"without Numba": without(program)}, program,
             clock="cpu" if program is attention else "seconds",
             length=Length(launches=2, rounds=6, turn=2, limit=30))
        for title, program, options in races
    ]  # fmt: skip
