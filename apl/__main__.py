"""`python -m apl` is the command line."""

from apl.cli import main

if __name__ == "__main__":
    main()
