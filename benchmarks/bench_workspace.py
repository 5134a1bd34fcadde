"""What a caller-owned workspace saves in KDA: ``python -m madspace bench workspace`` as a script."""

import sys

from madspace.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", "workspace", *sys.argv[1:]]))
