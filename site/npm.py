"""Packages of the npm registry, each checked against the sum that is recorded here."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

INTEGRITY = {
    "katex@0.19.1":
        "jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA==",
    "@fontsource-variable/source-serif-4@5.3.1":
        "4Rtay22SC4lMvw11r/+9kxANB6P3M0X8s1NudBC2v0J1KU2y3DcMoNcT3lBoZ/CqLirzf+StlO6UlJilyrvaUg==",
    "iframe-worker@1.0.4":
        "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
}  # fmt: skip
"""The SHA-512 of each package, in base64 as npm prints it (`npm view NAME dist.integrity`)."""


def fetch(package: str, cache: Path) -> Path:
    """Download a package, or take it from the cache, and unpack it.

    Args:
        package: name@version, in `INTEGRITY`.
        cache: a folder that is kept; it is made if it is not there.
    Returns: the folder of the package.
    Raises: RuntimeError if it cannot be had, or has another sum.
    """
    folder = cache / package
    if folder.is_dir():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(f"{package}: needs npm, which is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as place:
        words = [npm, "pack", "--silent", package]
        packed = subprocess.run(words, cwd=place, capture_output=True, text=True)
        archives = [*Path(place).glob("*.tgz")]
        if packed.returncode or len(archives) != 1:
            raise RuntimeError(f"{package}: npm could not get it: {packed.stderr.strip()[-300:]}")
        found = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
        if found != INTEGRITY[package]:
            raise RuntimeError(f"{package}: has the sum {found}; expected {INTEGRITY[package]}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(place, filter="data")
        (Path(place) / "package").rename(folder)  # whole, or not at all
    return folder
