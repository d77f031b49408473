"""`python -m tiergate_server` is the command `tiergate`."""

from tiergate_server.cli import main

if __name__ == "__main__":
    main()
