"""The command `specgen`, which is `python -m specgen`, too."""

import gc

from specgen.cli import main


def run() -> None:
    """Run the command in a process of its own.

    Python's search for cycles would take a fifth of its time, and would find next to nothing.
    """
    gc.disable()
    try:
        main(prog_name="specgen")
    finally:
        gc.freeze()  # no search at the end, either


if __name__ == "__main__":
    run()
