"""A training step of tinyattn beside PyTorch's: python benchmarks/compare.py

Makes a virtual environment of its own with PyTorch (once, in --venv), keeps the contenders alive
side by side and lets them take steps in turn. Each round gives one ratio; the table shows the
median ratio with its quartiles, which other load on the machine moves much less than it moves
the seconds. Where in memory a process happens to lie can make it faster or slower for all its life,
so the contenders are launched anew several times. First it checks that tinyattn and PyTorch compute
the same losses.

"torch" is PyTorch as it comes, with attention written out; "SDPA" uses its fused attention; "kept"
is told to keep freed memory (backend.keep_freed_memory), as tinyattn tells the C library itself.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
WORKLOADS = {  # name -> options of the contenders, and steps in one turn
    "A5 step, batch 32, dropout 0.1": (["--size", "a5", "--dropout", "0.1"], 3),
    "A5 step, batch 32, dropout 0": (["--size", "a5", "--dropout", "0"], 3),
    "A5 step, batch 32, dropout 0.1, tanh GELU": (["--size", "a5", "--gelu", "tanh"], 3),
    "tiny step, batch 32, dropout 0.1": (["--size", "tiny", "--dropout", "0.1"], 10),
}


class Contender:
    """A running contender that takes a step when asked."""

    def __init__(self, python: Path, script: str, options: list[str]) -> None:
        command = [str(python), str(HERE / script), *options]
        env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        self.process = subprocess.Popen(command, env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{script} did not start")

    def step(self) -> dict:
        self.process.stdin.write("step\n")
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def torch_python(folder: Path) -> Path:
    """The interpreter of an environment with PyTorch, made at the first call."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        print(f"making {folder} with {TORCH}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", TORCH, "numpy"], check=True)
    return python


def losses_agree(ours: list[str], theirs: list[str], torch: Path) -> float:
    """The largest difference of the first three losses, without dropout."""
    pair = [Contender(Path(sys.executable), "contender_tinyattn.py", ours),
            Contender(torch, "contender_torch.py", theirs)]  # fmt: skip
    differences = [abs(pair[0].step()["loss"] - pair[1].step()["loss"]) for _ in range(3)]
    for contender in pair:
        contender.close()
    return max(differences)


def race(name: str, torch: Path, rounds: range, threads: int) -> dict[str, list[dict]]:
    """The steps that freshly launched contenders take in turn, for each of them."""
    options, turn = WORKLOADS[name]
    options = [*options, "--threads", str(threads)]
    contenders = {
        "tinyattn": Contender(Path(sys.executable), "contender_tinyattn.py", options),
        "torch": Contender(torch, "contender_torch.py", options),
        "torch SDPA": Contender(torch, "contender_torch.py", [*options, "--sdpa"]),
        "torch kept": Contender(torch, "contender_torch.py", [*options, "--keep"]),
    }
    results: dict[str, list[dict]] = {key: [] for key in contenders}
    for contender in contenders.values():  # warm up
        contender.step()
        contender.step()
    for number in rounds:
        keys = list(contenders)
        for key in keys[number % len(keys) :] + keys[: number % len(keys)]:
            time.sleep(0.1)  # let the last one's threads go to sleep
            steps = [contenders[key].step() for _ in range(turn)]
            results[key].append({k: statistics.median(s[k] for s in steps) for k in steps[0]})
    for contender in contenders.values():
        contender.close()
    return results


def compare(name: str, torch: Path, launches: int, rounds: int, threads: int) -> dict:
    results: dict[str, list[dict]] = {}
    for launch in range(launches):
        numbers = range(launch * rounds, (launch + 1) * rounds)  # they say who begins
        for key, steps in race(name, torch, numbers, threads).items():
            results.setdefault(key, []).extend(steps)
    row = {"workload": name, "launches": launches, "rounds": launches * rounds}
    for key, steps in results.items():
        ratios = sorted(s["seconds"] / t["seconds"]
                        for s, t in zip(steps, results["torch"], strict=True))  # fmt: skip
        quartiles = statistics.quantiles(ratios, n=4)
        row[key] = {
            "seconds": statistics.median(s["seconds"] for s in steps),
            "ratio": statistics.median(ratios), "low": quartiles[0], "high": quartiles[2],
            "step_mb": max(s["step_mb"] for s in steps),
            "peak_mb": max(s["peak_mb"] for s in steps),
        }  # fmt: skip
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5, help="in each launch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache/tinyattn-bench/torch")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.launches * options.rounds < 2:
        parser.error("quartiles need at least two rounds")
    torch = torch_python(options.venv)
    rows = []
    for size in ("a5", "tiny"):
        check = ["--size", size, "--dropout", "0"]
        print(f"largest loss difference, {size}: {losses_agree(check, check, torch):.1e}",
              file=sys.stderr)  # fmt: skip
    for name in WORKLOADS:
        if options.only in name:
            rows.append(compare(name, torch, options.launches, options.rounds, options.threads))
            if not options.json:
                print_row(rows[-1])
    if options.json:
        print(json.dumps({"machine": machine(), "rows": rows}))
    else:
        print(machine())


def print_row(row: dict) -> None:
    print(row["workload"])
    for key in [key for key in row if key not in ("workload", "launches", "rounds")]:
        r = row[key]
        print(f"  {key:11s} {1000 * r['seconds']:7.0f} ms   ratio {r['ratio']:.2f} "
              f"[{r['low']:.2f} {r['high']:.2f}]   memory of the step {r['step_mb']:5.0f} MB, "
              f"peak {r['peak_mb']:5.0f} MB", flush=True)  # fmt: skip


def machine() -> str:
    import numpy

    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo")
                  if line.startswith("model name")), platform.processor())  # fmt: skip
    return (f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, "
            f"NumPy {numpy.__version__}, {TORCH}")  # fmt: skip


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


if __name__ == "__main__":
    main()
