"""``python -m kcdo`` is the command ``kcdo``."""

from kcdo.cli import main

if __name__ == "__main__":
    main()
