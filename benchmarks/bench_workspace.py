"""What a caller-owned workspace saves in KDA: ``python -m madspace bench workspace`` as a script."""

import sys

from madspace.bench.command import main

if __name__ == "__main__":
    sys.exit(main(["workspace", *sys.argv[1:]]))
