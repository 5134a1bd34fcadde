"""Time of Kimi Delta Attention forward: ``python -m madspace bench kda`` as a script."""

import sys

from madspace.bench.command import main

if __name__ == "__main__":
    sys.exit(main(["kda", *sys.argv[1:]]))
