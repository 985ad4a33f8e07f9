"""`python -m upcl` is the command `upcl`."""

from upcl.cli import main

main()
