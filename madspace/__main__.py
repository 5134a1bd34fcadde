"""Command line: ``python -m madspace demo``, ``info`` and ``bench``."""

import argparse
import os
import sys

from madspace import demo, info
from madspace.bench import command as bench
from madspace.errors import MadspaceError

# As a shell reports a process that the signal of a broken pipe, or of Ctrl-C, has ended.
BROKEN_PIPE = 128 + 13
INTERRUPTED = 128 + 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status.

    Parameters
    ----------
    arguments : list of str, optional
        Instead of those of the process.

    Returns
    -------
    int
        0 when all is well, 1 when a check or a device call failed, 2 for wrong arguments, 130 after an interrupt, 141
        when nobody reads the output any more.
    """
    parser = argparse.ArgumentParser(
        prog="python -m madspace", description="GPU runtime, phase-space mappings and Kimi Delta Attention."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command, purpose in (
        ("demo", demo, "map random numbers to phase space and check the points"),
        ("info", info, "print what a bug report needs: versions, driver, devices, kernels, environment"),
        ("bench", bench, "measure: driver calls, workspaces, mappings, attention; compare and draw the results"),
    ):
        subparser = commands.add_parser(name, help=purpose)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        print(end="", flush=True)  # here, where a broken pipe is expected, and not at exit
    except BrokenPipeError:
        # What is still in the buffer would be written at exit, with a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except MadspaceError as error:
        print(f"madspace {options.command}: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
