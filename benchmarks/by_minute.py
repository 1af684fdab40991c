"""A run's metrics by the minute: python benchmarks/by_minute.py runs/pretrain --every 5

The loss of a batch depends on the lengths of its sequences, so a row shows the mean over the
minutes since the row before. Minutes are those of training, also for a run that was resumed.
"""

import argparse
from pathlib import Path

import numpy as np

from tinyattn.training.metrics import METRICS, read_metrics


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument("--every", type=float, default=5, help="minutes a row")
    chosen = parser.parse_args()
    entries = read_metrics(chosen.run / METRICS)
    row = np.array([int(entry["seconds"] / 60 / chosen.every) for entry in entries])
    print("| minutes | step | epoch | loss, nats | learning rate |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for number in np.unique(row):
        inside = [entry for entry, where in zip(entries, row, strict=True) if where == number]
        last, loss = inside[-1], np.mean([entry["loss"] for entry in inside])
        print(f"| {last['seconds'] / 60:.1f} | {last['step']} | {last['epoch']} | {loss:.3f} "
              f"| {last['learning_rate']:.5f} |")  # fmt: skip


if __name__ == "__main__":
    main()
