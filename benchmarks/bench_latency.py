"""Single operations of the runtime beside C and other libraries: ``python -m madspace bench latency`` as a script."""

import sys

from madspace.bench.command import main

if __name__ == "__main__":
    sys.exit(main(["latency", *sys.argv[1:]]))
