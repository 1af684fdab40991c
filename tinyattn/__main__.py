"""`python -m tinyattn` is `tinyattn`."""

from tinyattn.cli import main

main()
