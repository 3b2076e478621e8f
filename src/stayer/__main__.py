"""`python -m stayer` is the command `stayer`."""

from stayer.cli import main

if __name__ == "__main__":
    main()
