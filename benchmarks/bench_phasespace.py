"""Speed of phase-space mappings: ``python -m madspace bench phasespace`` as a script."""

import sys

from madspace.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", "phasespace", *sys.argv[1:]]))
