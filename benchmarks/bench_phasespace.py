"""Speed of phase-space mappings: ``python -m madspace bench phasespace`` as a script."""

import sys

from madspace.bench.command import main

if __name__ == "__main__":
    sys.exit(main(["phasespace", *sys.argv[1:]]))
