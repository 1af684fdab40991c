"""The peers, each in its own virtual environment, which is created when first needed.

They are no dependencies of tinyattn, and nothing is installed in tinyattn's own environment. On
Linux, torch from PyPI brings several GB for GPUs that are not needed here; to use a CPU build,
install it in the environment `torch` beforehand.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path.home() / ".cache/tinyattn-bench"
NUMPY = "numpy==2.4.6"
KIT = (NUMPY, "hypothesis==6.170.17", "click==8.5.1", "safetensors==0.8.0", "tqdm==4.70.1",
       "threadpoolctl==3.8.0")  # fmt: skip
"""What `tinyattn.check` needs in the environments of attentions/."""


class Unavailable(Exception):
    """This peer cannot run here; the message is one line with the reason."""


@dataclass(frozen=True)
class Peer:
    """What to install for a peer, and what else it needs."""

    requirements: tuple[str, ...]
    python: tuple[int, int] = (3, 11)  # the oldest version that it supports
    command: str = ""  # a compiler that it calls; pip cannot install it


PEERS = {
    "torch": Peer(("torch==2.13.0", NUMPY)),
    "autograd": Peer(("autograd==1.9.1", NUMPY, "scipy==1.17.1")),
    "jax": Peer(("jax==0.10.2", NUMPY)),
    "mygrad": Peer(("mygrad==2.5.0", NUMPY)),
    "tinygrad": Peer(("tinygrad==0.14.0", NUMPY), command="clang"),
    "numpygrad": Peer(("numpygrad==0.1.1", NUMPY), python=(3, 12)),
    "laws-torch": Peer(("torch==2.13.0", "transformers==5.24.0", "x-transformers==2.31.10", *KIT)),
    "laws-torch-other": Peer(
        ("torch==2.14.1", "transformers==4.57.3", "x-transformers==2.11.24", *KIT)),
    "laws-jax": Peer(
        ("jax==0.10.2", "flax==0.12.8", "keras==3.15.1", "equinox==0.13.8", *KIT)),
    "laws-jax-other": Peer(
        ("jax==0.8.3", "flax==0.12.0", "keras==3.12.4", "equinox==0.13.2", *KIT)),
    "laws-onnx": Peer(("onnx==1.23.2", *KIT)),
    "laws-onnx-other": Peer(("onnx==1.19.1", *KIT)),
}  # fmt: skip


def interpreter(name: str) -> Path:
    """The Python of a peer's environment, or this one for tinyattn.

    Raises: Unavailable if the environment cannot be made.
    """
    if name == "tinyattn":
        return Path(sys.executable)
    peer, folder = PEERS[name], FOLDER / name
    if peer.command:
        need(peer.command)
    python, done = folder / "bin" / "python", folder / "complete"
    if done.exists() and done.read_text() == "\n".join(peer.requirements):
        return python
    print(f"making {folder}: {', '.join(peer.requirements)}", file=sys.stderr)
    made = _run([_python(peer.python), "-m", "venv", folder])
    made = made or _run([python, "-m", "pip", "install", "-q", *peer.requirements])
    if made:
        raise Unavailable(f"installing {name} failed: {made}")
    done.write_text("\n".join(peer.requirements))
    return python


def need(command: str) -> None:
    """Raises: Unavailable if there is no such command."""
    if shutil.which(command) is None:
        raise Unavailable(f"it needs {command}, which is not installed")


def _python(oldest: tuple[int, int]) -> str:
    """A Python that is new enough: this one, or another one that is installed."""
    if sys.version_info[:2] >= oldest:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 4)]
    found = [path for path in map(shutil.which, names) if path]
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    for path in [*found, *map(str, pyenv)]:
        check = f"import sys; sys.exit(sys.version_info[:2] < {oldest})"
        if not _run([path, "-c", check]):
            return path
    raise Unavailable(f"it needs Python {oldest[0]}.{oldest[1]} or newer, which was not found")


def _run(command: list[str | Path]) -> str:
    """The last line that a command printed if it failed, else an empty string."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines() or ["no message"]
    return lines[-1] if done.returncode else ""
