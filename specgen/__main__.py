"""`python -m specgen`."""

from specgen.cli import main

if __name__ == "__main__":
    main(prog_name="specgen")
