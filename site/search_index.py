"""The index of the search, without blocks of code.

A browser loads it with the first page, and code is a quarter of it. In the list of results a block
of code is one long line that nobody can read.
"""

from __future__ import annotations

import re
from pathlib import Path

BLOCK = re.compile(r"<pre>.*?</pre>")  # inside of a JSON string, which has no line ends


def trim(site: Path) -> None:
    """Take blocks of code out of all index files of a built site.

    Raises: RuntimeError if there is no index.
    """
    files = [*site.glob("search.js*"), *site.glob("search/search_index.js*")]
    if not files:
        raise RuntimeError("search: the builder has written no index that this program knows")
    for file in files:
        file.write_text(BLOCK.sub("", file.read_text("utf-8")), "utf-8")
