"""Time of Kimi Delta Attention forward: ``python -m madspace bench kda`` as a script."""

import sys

from madspace.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", "kda", *sys.argv[1:]]))
