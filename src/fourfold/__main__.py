"""`python -m fourfold` is the command `fourfold`, where no script of it is on the path."""

from __future__ import annotations

from fourfold.cli import main

if __name__ == "__main__":
    main(prog_name="fourfold")
