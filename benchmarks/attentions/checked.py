"""Check the laws on all subjects of one file, and print a line of JSON for each.

It runs in an environment of the libraries: python checked.py with_torch [name of one subject]
"""

import json
import sys
import time
import warnings
from importlib import import_module
from importlib.metadata import version

from tinyattn.check import check_attention
from tinyattn.check.report import as_dict

SHOWN_OPTIONS = "mask", "no_key", "causal_from"

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # libraries warn of empty arrays and of NaN
    for subject in import_module(sys.argv[1]).SUBJECTS:
        if sys.argv[2:] and sys.argv[2] not in subject.name:
            continue
        began = time.perf_counter()
        found = check_attention(
            subject.f, subject.supports, examples=subject.examples, **subject.options
        )
        about = {
            "name": subject.name,
            "package": subject.package,
            "version": version(subject.package),
            "declared": {o: subject.options[o] for o in SHOWN_OPTIONS if o in subject.options},
            "seconds": time.perf_counter() - began,
        }
        print(json.dumps({**as_dict(found), **about}), flush=True)
