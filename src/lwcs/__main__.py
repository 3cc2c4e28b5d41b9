"""`python -m lwcs`: the commands where the script `lwcs` is not on the search path."""

from __future__ import annotations

from lwcs.cli import main

if __name__ == "__main__":
    main(prog_name="lwcs")
