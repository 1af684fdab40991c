"""Build the site: the book, its code beside its words, and a reference, as pages without a server.

python site/build.py --out DIR          # then open DIR/index.html

Needs `pip install '.[site]'`, and npm and Node for KaTeX. Nothing on the built
pages comes from another host. `--with mkdocs` builds the same sources with mkdocs-material.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

ZENSICAL = "0.0.73"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tinyattn-site"
BUILDERS = {
    "zensical": ["zensical", "build", "--strict"],
    "mkdocs": ["mkdocs", "build", "--strict"],
}


def missing(builder: str) -> list[str]:
    """What is not installed and would leave out a part of the site."""
    found = []
    pages = "zensical" if builder == "zensical" else "mkdocs-material"
    for name in (pages, "pygments", "jupytext"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(f"the Python package {name}: the site has no pages without it")
            continue
        if name == "zensical" and version != ZENSICAL:
            found.append(f"zensical {ZENSICAL}: there is {version}, which may read other settings")
    for program in ("npm", "node"):
        if not shutil.which(program):
            found.append(f"{program}: formulas would stay TeX, and search would need a server")
    return found


def assets(pages: Path, cache: Path) -> Path:
    """Copy what comes from npm, with its licences. Returns: the folder of KaTeX's package."""
    import npm

    katex, serif, worker = (npm.fetch(package, cache) for package in npm.INTEGRITY)
    folder = pages / "assets"
    (folder / "katex/fonts").mkdir(parents=True)
    (folder / "fonts").mkdir()
    shutil.copy(katex / "dist/katex.min.css", folder / "katex")
    for font in (katex / "dist/fonts").glob("*.woff2"):
        shutil.copy(font, folder / "katex/fonts")
    for name in ("latin-wght-normal", "latin-wght-italic", "greek-wght-normal"):
        shutil.copy(serif / f"files/source-serif-4-{name}.woff2", folder / f"fonts/{name}.woff2")
    shutil.copy(worker / "shim/index.js", folder / "iframe-worker.js")
    for package, place in ((katex, "katex"), (serif, "fonts"), (worker, ".")):
        name = "iframe-worker.LICENSE.txt" if place == "." else "LICENSE.txt"
        shutil.copy(package / "LICENSE", folder / place / name)
    return katex


def build(out: Path, *, cache: Path = CACHE, builder: str = "zensical") -> dict[str, float]:
    """Build the site into a folder, which is replaced.

    Returns: pages, formulas, megabytes and seconds.
    Raises: RuntimeError for what is missing or fails; ValueError for a link that leads nowhere.
    """
    start = time.perf_counter()
    lacking = missing(builder)
    if lacking:
        raise RuntimeError("missing:\n  " + "\n  ".join(lacking))
    from addresses import Addresses
    from code_pages import fill
    from formulas_html import render
    from search_index import trim
    from staging import stage

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pages = stage(folder)
        katex = assets(folder / "pages", cache)
        run = subprocess.run([sys.executable, "-m", *BUILDERS[builder], "-f", "mkdocs.yml"],
                             cwd=folder, env={**os.environ, "NO_COLOR": "1"}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        if run.returncode:
            raise RuntimeError(f"{builder} failed:\n{run.stdout}")
        (folder / "built/404.html").unlink()  # it works only at the root of a server
        trim(folder / "built")
        fill(folder / "built", Addresses())
        formulas = render(folder / "built", katex)
        if out.exists():
            shutil.rmtree(out)
        shutil.move(folder / "built", out)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    seconds = time.perf_counter() - start
    return {"pages": pages, "formulas": formulas, "megabytes": size, "seconds": seconds}


def main() -> int:
    """The command. Returns: 0, or 1 if the site could not be built whole."""
    parser = argparse.ArgumentParser(description="Build the site.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the site; replaced")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for npm's packages")
    parser.add_argument("--with", dest="builder", choices=[*BUILDERS], default="zensical",
                        help="what builds the pages (default: zensical)")  # fmt: skip
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "index.html").exists():
        parser.error(f"--out: {args.out} has files and no index.html; it would be replaced")
    try:
        made = build(args.out, cache=args.cache, builder=args.builder)
    except (RuntimeError, ValueError, OSError) as error:
        print(f"NO SITE WAS BUILT. {error}", file=sys.stderr)
        return 1
    print(f"{made['pages']} pages, {made['formulas']} formulas, {made['megabytes']:.1f} MB, "
          f"{made['seconds']:.1f} seconds: {args.out / 'index.html'}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
