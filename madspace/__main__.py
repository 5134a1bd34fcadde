"""Command line: ``python -m madspace demo``."""

import argparse
import sys

from madspace import demo


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m madspace", description="GPU runtime and phase-space mappings.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo.add_arguments(commands.add_parser("demo", help="map random numbers to phase space and check the points"))
    options = parser.parse_args(arguments)
    return demo.run(options)


if __name__ == "__main__":
    sys.exit(main())
