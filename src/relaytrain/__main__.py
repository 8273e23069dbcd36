"""`python -m relaytrain` is the command line."""

from .cli.app import command

if __name__ == "__main__":
    command()
