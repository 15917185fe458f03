#!/usr/bin/env python3
"""Says whether two cubins with one kernel each have the same machine code, whole or in the main loop.

usage: compare_code.py A.cubin B.cubin       exit status 0 if all of it is the same
Names, symbols and debug data are ignored. To be run after every edit of device/: this compiler's
register allocation, and with it the speed, changes with the order of two integer additions.
"""

import sys

from cubin import Kernel


def words(kernel, first, last):
    return [kernel.words(i) for i in range(first, last + 1)]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    a, b = Kernel(sys.argv[1]), Kernel(sys.argv[2])
    same_loop = words(a, a.first, a.last) == words(b, b.first, b.last)
    same = words(a, 0, len(a.code) - 1) == words(b, 0, len(b.code) - 1)
    print('same code' if same else 'same main loop' if same_loop else 'different')
    sys.exit(0 if same else 1)


if __name__ == '__main__':
    main()
