"""``python -m tui`` is ``spec``."""

from tui.cli import run

if __name__ == "__main__":
    run()
