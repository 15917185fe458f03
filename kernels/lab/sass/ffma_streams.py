#!/usr/bin/env python3
"""Writes cubins whose loop is a chosen stream of FFMAs, to measure what the register file charges.

usage: ffma_streams.py build/ffma_stream.cubin OUT_DIR        then run_streams on each, by timeout

A stream is named <where accumulators lie>_<order>[_<what else>]:
  opposite    accumulator (i, j) has the parity that A's register of row i has not
  same        it has the same parity
  column      it has the parity of column j;  column_opposite: the other one
  mixed       as opposite, but one in eight as same
Orders: snake (columns, rows up and down inside), straight (rows always up), row_snake (rows, columns
to and fro inside), column_pairs (two columns held), row_pairs (two rows held).
"""

import os
import sys

from bank_model import summary
from cubin import FFMA, LDS, RZ, Kernel, control

# Registers of the compiled ffma_stream.cu: its loop counter, addresses and clock must stay.
RESERVED = {0, 1, 2, 3, 150, 152, 153}
ACCUMULATORS = [r for r in range(24, 152) if r != 150] + [194]
A = [[8 + i for i in range(8)], [16 + i for i in range(8)]]  # two buffers, as in the kernels
B = [[160 + j for j in range(16)], [176 + j for j in range(16)]]
STEPS = 8
assert not (set(range(8, 24)) | set(range(160, 192)) | set(ACCUMULATORS)) & RESERVED

UP, DOWN = range(8), range(7, -1, -1)
TO, FRO = range(16), range(15, -1, -1)


def place_accumulators(kind):
    pool = [[r for r in ACCUMULATORS if r % 2 == parity] for parity in (0, 1)]
    out = {}
    for i in range(8):
        for j in range(16):
            opposite = 1 - (i & 1)
            parity = {'opposite': opposite, 'same': i & 1, 'column': j & 1,
                      'column_opposite': 1 - (j & 1),
                      'mixed': opposite if (i * 16 + j) % 8 else i & 1}[kind]
            source = pool[parity] or pool[1 - parity]
            out[i, j] = source.pop(0)
    return out


def order(kind):
    """(row, column) of a k-step's 128 FFMAs."""
    if kind == 'snake':
        return [(i, j) for j in range(16) for i in (DOWN if j % 2 else UP)]
    if kind == 'straight':
        return [(i, j) for j in range(16) for i in UP]
    if kind == 'row_snake':
        return [(i, j) for i in range(8) for j in (FRO if i % 2 else TO)]
    out, flip = [], 0
    if kind == 'column_pairs':
        for j in range(0, 16, 2):
            for i in (DOWN if j % 4 else UP):
                out += [(i, j + flip), (i, j + 1 - flip)]
                flip ^= 1
    elif kind == 'row_pairs':
        for i in range(0, 8, 2):
            for j in (FRO if i % 4 else TO):
                out += [(i + flip, j), (i + 1 - flip, j)]
                flip ^= 1
    return out


def stream(accumulators, kind, load_spacing, size):
    """FFMAs (c, a, b), and, every load_spacing of them, loads (register, k-step, number)."""
    out = []
    for k in range(STEPS):
        following = (k + 1) & 1
        targets = A[following][::4] + B[following][::4]
        load_at = {4 + z * load_spacing: z for z in range(6)} if load_spacing else {}
        for q, (i, j) in enumerate(order(kind)):
            if q in load_at:
                out.append(('load', targets[load_at[q]], k, load_at[q]))
            out.append(('ffma', accumulators[i, j], A[k & 1][i], B[k & 1][j]))
    return out[:size]


def reuse_flags(items, q):
    flags = 0
    for bit, field in ((0, 2), (1, 3)):
        for y in items[q + 1:q + 12]:
            if y[0] == 'load':
                continue
            if y[field] == items[q][field]:
                flags |= 1 << bit
                break
            if (y[field] & 1) == (items[q][field] & 1):
                break
    return flags


def write_stream(body, out_dir, name, where, kind, load_spacing=0, reuse=True, drop_every=0,
                 switch_every=0, yield_bit=1):
    """drop_every: no .reuse in each n-th FFMA; switch_every: stall 2 and let the other warp in."""
    kernel = Kernel(body)
    slots = [i for i, x in enumerate(kernel.loop) if x['op'] == FFMA]
    items = stream(place_accumulators(where), kind, load_spacing, len(slots))
    ffmas = 0
    for q, x in enumerate(items):
        if x[0] == 'load':
            _, rd, k, z = x
            words = [LDS | 7 << 12 | rd << 16 | RZ << 24 | (k * 1024 + z * 128) << 40,
                     0x0c00 | control(1, write_barrier=2)]
        else:
            _, c, a, b = x
            flags = reuse_flags(items, q) if reuse and not (drop_every and q % drop_every == 0) else 0
            switch = switch_every and q % switch_every == 0
            wait = 1 << 2 if load_spacing and ffmas % 128 == 0 else 0  # once a k-step, for its loads
            words = [FFMA | 7 << 12 | c << 16 | a << 24 | b << 32,
                     c | control(2 if switch else 1, wait=wait,
                                 yield_bit=0 if switch else yield_bit) | flags << 58]
            ffmas += 1
        kernel.set_words(kernel.first + slots[q], words)
    path = os.path.join(out_dir, name + '.cubin')
    kernel.write(path)
    print(f'{path}: {summary(Kernel(path).loop)}')


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    body, out_dir = sys.argv[1:]
    os.makedirs(out_dir, exist_ok=True)

    def write(where, kind, suffix='', **options):
        name = '_'.join(x for x in (where, kind, suffix) if x)
        write_stream(body, out_dir, name, where, kind, **options)

    for kind in ('snake', 'straight', 'column_pairs', 'row_pairs', 'row_snake'):
        write('opposite', kind)
    for where, kind in (('same', 'snake'), ('same', 'row_pairs'), ('column', 'snake'),
                        ('column', 'column_pairs'), ('column', 'row_snake'),
                        ('column_opposite', 'row_snake'), ('mixed', 'snake'),
                        ('mixed', 'column_pairs')):
        write(where, kind)
    write('opposite', 'snake', 'no_reuse', reuse=False)
    write('opposite', 'snake', 'drop8', drop_every=8)
    for kind in ('snake', 'column_pairs'):
        for spacing in (1, 4, 12):
            write('opposite', kind, f'loads{spacing}', load_spacing=spacing)
        write('opposite', kind, 'switch16', switch_every=16)
        write('opposite', kind, 'yield', yield_bit=0)


if __name__ == '__main__':
    main()
