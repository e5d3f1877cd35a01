"""Entry of `./paddock` and `python -m paddock`. An older Python can read it too, and hands over to a newer one."""

from __future__ import annotations

import os
import sys

NEEDED = (3, 11)


def newer_python() -> str | None:
    for minor in range(20, NEEDED[1] - 1, -1):
        for directory in os.environ.get("PATH", "").split(":"):
            candidate = os.path.join(directory, "python3.%d" % minor)
            if os.access(candidate, os.X_OK):
                return candidate
    return None


def start() -> None:
    if sys.version_info < NEEDED:
        found = newer_python()
        if found is None:
            sys.stderr.write("error: this is Python %d.%d, Paddock needs 3.11\n" % sys.version_info[:2])
            sys.stderr.write("hint: install a newer one, for example `apt install python3.11`\n")
            sys.exit(125)
        os.execv(found, [found, "-I", "-S", os.path.abspath(__file__), *sys.argv[1:]])
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from paddock.cli import main

    sys.exit(main())


if __name__ == "__main__":
    start()
