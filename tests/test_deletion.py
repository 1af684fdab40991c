"""Without its engine room the book still runs, slowly and with the same results.

A copy of the package without kernels/, parallel/ and measure/ trains, evaluates, generates and
checks all claims, in its own process; this file is the program that it runs. Formulas add in
another order than kernels, so losses in float64 agree to 1e-9 and not to the last bit.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
ENGINE_ROOM = ("kernels", "parallel", "measure")


def all_results() -> dict[str, Any]:
    """The results of the importable package for a small task, and for the claims."""
    from tinyattn.report.claims import as_dict
    from tinyattn.theory import CLAIMS, REMARKS, judge_all

    found = {name: trained(name) for name in ("sgd", "adamw", "muon")}
    results = judge_all([*CLAIMS.values()], draws=1)
    rows = as_dict(results, [*REMARKS.values()])["rows"]
    claims = [[row[key] for key in ("id", "verdict", "ok")] for row in rows]
    return {**found, "claims": claims, "job": job()}


def job() -> dict[str, Any]:
    """The job by commands: the answers of a small model, and its last losses, in float32."""
    from click.testing import CliRunner

    from tinyattn.cli import main

    def call(words: str) -> dict[str, Any]:
        done = CliRunner().invoke(main, [*words.split(), "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    Path("small.toml").write_text("[model]\ncontext = 80\nlayers = 1\nheads = 2\nwidth = 16\n"
                                  "[data]\nlongest = 72\n[pretrain]\nsteps = 5\n"
                                  "[finetune]\nsteps = 5\n")  # fmt: skip
    call("world --out world --people 12 --places 3 --dev 4 --test 2 --sentences 2")
    losses = [call("pretrain world/corpus.txt --config small.toml --out one")["loss"],
              call("finetune world/birth_train.tsv --from one --out two")["loss"]]  # fmt: skip
    return {"losses": losses, "score": call("evaluate world/birth_dev.tsv --from two")}


def trained(optimizer: str) -> dict[str, Any]:
    """Ten steps of a small GPT with dropout: the losses, one without dropout, two generations."""
    from tinyattn import no_grad, ops
    from tinyattn.data.batches import PAD, Batch, pad_rows
    from tinyattn.models import GPT, GPTConfig, generate
    from tinyattn.rng import DropoutRNG
    from tinyattn.training import make_optimizers
    from tinyattn.training.fit import step

    config = GPTConfig(vocabulary=20, context=16, layers=2, heads=2, width=16, dropout=0.1)
    model = GPT(config, seed=1)
    model.astype("float64")

    def loss(batch: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Any:
        logits = model(batch.inputs, dropout_rng=dropout_rng)
        return ops.cross_entropy(logits, batch.targets, ignore=PAD, divisor=divisor)

    rng = np.random.default_rng(0)

    def batch() -> Batch:
        """Sequences of several lengths, each of which counts upwards."""
        starts, lengths = rng.integers(1, 19, 6), rng.integers(3, 16, 6)
        texts = [1 + np.arange(s, s + n + 1) % 19 for s, n in zip(starts, lengths, strict=True)]
        longest = int(lengths.max())
        return Batch(*(pad_rows(rows, longest)
                       for rows in ([t[:-1] for t in texts], [t[1:] for t in texts])))  # fmt: skip

    take = step(np, loss, make_optimizers(model, optimizer), seed=3)
    with take:
        losses = [take(batch(), i, 0.01).loss for i in range(10)]
    last = batch()
    with no_grad():
        losses.append(loss(last, None, last.trained).item())
    start = [np.array([3, 4]), np.array([7])]
    ways: list[dict[str, Any]] = [{"temperature": 0.0}, {"rng": np.random.default_rng(5)}]
    texts = [[ids.tolist() for ids in generate(model, start, 20, **way)] for way in ways]
    return {"losses": losses, "texts": texts}


def copied(there: Path, *without: str) -> Path:
    """A copy of the package, without some rooms."""
    skip = shutil.ignore_patterns("__pycache__", *without)
    shutil.copytree(ROOT / "tinyattn", there / "tinyattn", ignore=skip)
    return there


def run(folder: Path, *arguments: str) -> str:
    """Run Python with the package in a folder. Returns: what it printed."""
    command = [sys.executable, "-P", *arguments]
    settings = {"PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_without_the_engine_room_all_results_are_the_same(tmp_path: Path) -> None:
    plain, whole = (
        json.loads(run(copied(tmp_path / name, *rooms), __file__, *rooms))
        for name, rooms in (("plain", ENGINE_ROOM), ("whole", ()))
    )
    assert plain["claims"] == whole["claims"]
    assert all(ok for _, _, ok in whole["claims"])
    assert plain["job"]["score"] == whole["job"]["score"]
    np.testing.assert_allclose(plain["job"]["losses"], whole["job"]["losses"], rtol=1e-5)
    for name in ("sgd", "adamw", "muon"):
        assert plain[name]["texts"] == whole[name]["texts"]
        np.testing.assert_allclose(plain[name]["losses"], whole[name]["losses"], rtol=0, atol=1e-9)
        assert whole[name]["losses"][-1] < whole[name]["losses"][0] - 0.1, "nothing was learned"


IMPORT_ALL = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
import pkgutil, tinyattn.cli  # first: the command files of other folders import it
for module in pkgutil.walk_packages(tinyattn.__path__, "tinyattn."):
    if not module.name.endswith(("__main__", *sys.argv[1:])):
        __import__(module.name)
print(tinyattn.__file__)
"""
GO_WITH = {"kernels": [], "measure": [], "parallel": ["measure"]}
"""For each room, another one that is useless without it: measure/ measures the threads."""


@pytest.mark.parametrize("rooms", [*((room,) for room in ENGINE_ROOM), ENGINE_ROOM], ids=" ".join)
def test_each_room_may_be_deleted_and_all_of_them(rooms: tuple[str], tmp_path: Path) -> None:
    """All that is left can be imported, also the command line."""
    folder = copied(tmp_path, *rooms)
    from modules import NEED_EXTRAS  # this file is also a program, without tests/ in its path

    useless = [name for room in rooms for name in GO_WITH[room]]
    found = run(folder, "-c", IMPORT_ALL, *useless, *NEED_EXTRAS)
    assert found.strip() == str(folder / "tinyattn" / "__init__.py")


if __name__ == "__main__":
    # An editable install has a finder that would import the missing files from the checkout.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
    import tinyattn

    assert tinyattn.__file__ == str(Path.cwd() / "tinyattn" / "__init__.py")
    assert not any(Path("tinyattn", room).exists() for room in sys.argv[1:])
    print(json.dumps(all_results()))
