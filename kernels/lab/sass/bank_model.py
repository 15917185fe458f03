#!/usr/bin/env python3
"""Predicts the cycles per FFMA of a compiled main loop from its register numbers and .reuse flags.

usage: bank_model.py [--map] CUBIN...     (each with one kernel)
  --map  also one character per instruction of the loop: '.' two register reads, ',' one, '_' none,
         2 or 3: so many reads from one bank, '|' not an FFMA

The model. The register file has two banks, even and odd registers, and each gives one register (of
32 lanes) a cycle. An FFMA reads three, so it must find at least one in the reuse cache: one entry
per operand slot and bank, filled by an instruction whose .reuse flag is set, good for the next
reader of that slot and bank. An FFMA whose reads fall on one bank waits, unless the bank was idle
in the cycles before (a queue of WINDOW cycles). Every other instruction takes one issue slot.

Predicted against measured (H200): README.md, "The bank model".
"""

import collections
import sys

from cubin import FFMA, RZ, Kernel

WINDOW = 3
NAMES = {0x984: 'LDS', 0x947: 'BRA', 0x202: 'MOV', 0x810: 'IADD3', 0x81c: 'PLOP3', 0x88c: 'UISETP'}


def reads(x, cache):
    """Reads per bank of FFMA x; updates the reuse cache."""
    need = [0, 0]
    for slot, r in enumerate((x['ra'], x['rb'], x['rc'])):
        if r == RZ:
            continue
        key = (slot, r & 1)
        if cache.get(key) != r:
            need[r & 1] += 1
        if (x['reuse'] >> slot) & 1:
            cache[key] = r
        else:
            cache.pop(key, None)
    return need


def simulate(instructions):
    """Cycles to issue a straight run of instructions, and how its FFMAs read."""
    cache, free, time = {}, [0.0, 0.0], 0.0
    ffmas = total = two = three = 0
    for x in instructions:
        if x['op'] != FFMA:
            time += 1
            continue
        need = reads(x, cache)
        ffmas += 1
        total += sum(need)
        two += max(need) == 2
        three += max(need) == 3
        start = time
        for bank in (0, 1):
            if need[bank]:
                start = max(start, max(free[bank], time) + need[bank] - WINDOW)
        for bank in (0, 1):
            if need[bank]:
                free[bank] = max(free[bank], start) + need[bank]
        time = start + 1
    return dict(ffmas=ffmas, cycles=time, reads=total / max(ffmas, 1), two=two, three=three)


def summary(loop):
    twice = simulate(loop + loop)  # the second pass starts with the cache that the first leaves
    ffmas = sum(x['op'] == FFMA for x in loop)
    return (f'{len(loop)} instructions, {100 * ffmas / len(loop):.1f} % FFMA; '
            f'cycles/FFMA {twice["cycles"] / twice["ffmas"]:.4f}, '
            f'reads/FFMA {twice["reads"]:.3f}, two from one bank {twice["two"] // 2}, '
            f'three {twice["three"] // 2}')


def read_map(loop):
    cache, line = {}, ''
    for x in loop + loop:
        if x['op'] != FFMA:
            line += '|'
            continue
        need = reads(x, cache)
        line += str(max(need)) if max(need) > 1 else '_,.'[sum(need)]
    line = line[len(loop):]
    return '\n'.join(line[i:i + 96] for i in range(0, len(line), 96))


def main():
    paths = [a for a in sys.argv[1:] if a != '--map']
    if not paths:
        raise SystemExit(__doc__)
    for path in paths:
        loop = Kernel(path).loop
        others = collections.Counter(
            NAMES.get(x['op'], hex(x['op'])) for x in loop if x['op'] != FFMA)
        print(f'{path}: {summary(loop)}; others {dict(others.most_common(8))}')
        if '--map' in sys.argv:
            print(read_map(loop))


if __name__ == '__main__':
    main()
