"""Single operations of the runtime beside C and other libraries: ``python -m madspace bench latency`` as a script."""

import sys

from madspace.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", "latency", *sys.argv[1:]]))
