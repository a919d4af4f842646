"""What will and will not run on this machine, and what to do about it: `make doctor`.

    python -m workflow.doctor

Exits with 1 where `make` would fail.  This file holds nothing that an old Python cannot read.
"""

import sys


def main():
    """Examine the machine, with a Python that can read how."""
    if tuple(sys.version_info) < (3, 11):
        found = ".".join(str(part) for part in sys.version_info[:3])
        print("stop  Python " + found + " is too old: 3.11 or 3.12 is needed; install one, and")
        print("      name it, as in make doctor PYTHON=python3.12")
        return 1
    from workflow.checkup import report

    return report()


if __name__ == "__main__":
    sys.exit(main())
