#!/usr/bin/env python3
"""Rebuilds the main loop of a compiled kernel of ffma_multiply.cuh inside its cubin.

usage: rebuild_loop.py IN.cubin OUT.cubin       needs cuobjdump in PATH

What ptxas gets wrong is where it puts things, so this keeps every instruction that is not an FFMA or
an LDS in its slot and replaces the rest:
  - an accumulator stays in the register it has at loop entry (ptxas renames them all through);
  - two sets of fragment registers alternate: buffer 0 where ptxas has the loop-entry fragments,
    buffer 1 in quads that are free;
  - FFMAs go column by column, rows up and down, with .reuse wherever the next reader of that operand
    slot and bank reads the same register;
  - the six LDS of a k-step stand FIRST_LOAD and then every LOAD_SPACING FFMAs: each costs 1 to 2
    cycles of register ports, less when alone. 12 was the best; at 20 the last comes too late.

What must stay as compiled, each learned from a failure on the GPU:
  - the read barrier of the last LDS before the pointers of A and B advance: without it 4 % of the
    results were wrong, a race;
  - stall counts between neighbouring control instructions (UISETP -> PLOP3): without them an illegal
    address;
  - wide operands are pairs and quads that the encoding does not show, and other encodings have bits
    where FFMA has registers: a register counts as free only if unused as the whole of its quad, or
    above the highest that the disassembler prints;
  - new registers stay SPARE below what setmaxnreg gives: within 8 of it, "illegal instruction".
"""

import re
import shutil
import subprocess
import sys

from bank_model import summary
from cubin import BRA, CONTROL, FFMA, LDS, REUSE, RZ, Kernel, control, decode

FIRST_LOAD, LOAD_SPACING = 4, 12
SPARE = 8
ROWS, COLUMNS = 8, 16  # of a thread
LOADS = 6              # a k-step: 2 of A, 4 of B

MOV, ISETP, IADD3, SHF, LOP3 = 0x202, 0x210, 0x810, 0x819, 0x812
# Where instructions other than FFMA and LDS keep general registers, as far as they occur in these
# loops (and in the retry blocks of their barrier waits).
CONTROL_FIELDS = {
    MOV: ('rd', 'rb'), 0xc02: ('rd',), SHF: ('rd', 'ra', 'rc'), 0x5a7: ('ra', 'rb', 'rd'),
    ISETP: ('rd', 'ra', 'rb', 'rc'), IADD3: ('rd', 'ra', 'rc'), 0x9a7: ('ra', 'rb', 'rd')}
FIELD_AT = {'rd': (0, 16), 'ra': (0, 24), 'rb': (0, 32), 'rc': (1, 0)}  # word, bit
NO_DESTINATION = {BRA, 0x941, 0x945, 0x948, 0x918, 0x81c, 0x28c, 0x88c, 0x20c, 0xc0c, 0x5a7, 0x9a7,
                  0x291, 0x890, 0x891, 0x287, 0x299, 0x835}


def written(x):
    """Registers that instruction x of the loop writes."""
    if x['op'] in NO_DESTINATION or x['rd'] == RZ:
        return []
    return [x['rd'] + e for e in range({LDS: 4, 0x825: 2, 0x225: 2, 0x981: 4}.get(x['op'], 1))]


def ffma_order():
    """(row, column) of a k-step's FFMAs: columns outside, rows up and down inside."""
    return [(i, j) for j in range(COLUMNS)
            for i in (range(ROWS) if j % 2 == 0 else range(ROWS - 1, -1, -1))]


def disassembly(path):
    """The highest register that the kernel names, and the number that setmaxnreg gives."""
    if shutil.which('cuobjdump') is None:
        raise SystemExit('cuobjdump is not in PATH; see the head of the Makefile')
    text = subprocess.run(['cuobjdump', '--dump-sass', path], capture_output=True, text=True,
                          check=True).stdout
    highest = max(int(r) for r in re.findall(r'\bR(\d+)\b', text))
    limit = max(int(r, 16) for r in re.findall(r'USETMAXREG.*?0x([0-9a-f]+) ;', text))
    return highest, limit


class Loop:
    """What is where in the compiled loop. Positions count from its first instruction."""

    def __init__(self, kernel):
        self.code = kernel.loop
        self.size = len(self.code)
        ffmas = sum(x['op'] == FFMA for x in self.code)
        self.loads = [i for i, x in enumerate(self.code) if x['op'] == LDS]
        self.controls = [i for i, x in enumerate(self.code) if x['op'] not in (FFMA, LDS)]
        self.steps = ffmas // (ROWS * COLUMNS)
        assert ffmas == self.steps * ROWS * COLUMNS and len(self.loads) == self.steps * LOADS
        assert self.steps % 2 == 0, 'k-step 0 of the next pass must be buffer 0 again'
        # The block of control instructions (barrier wait, pointer update) in the last k-step.
        inner = [i for i in self.controls if i < self.size - 1]
        self.block_end = max(i for i in inner if self.code[i]['op'] in (MOV, BRA) and
                             any(abs(i - k) <= 2 for k in inner if k != i))
        self.block_start = min(
            i for i in self.controls if self.code[i]['op'] in (ISETP, IADD3, MOV, 0x824))
        self._group_loads()
        self._find_accumulators()

    def _group_loads(self):
        """groups[g]: the LDS that fetch k-step g, A's and then B's, by address."""
        code = self.code
        tail = [i for i in self.loads if i > self.block_end]  # of the next pass's k-step 0
        assert len(tail) == LOADS, (self.block_end, tail)
        by_base = {}
        for i in tail:
            by_base.setdefault(code[i]['ra'], []).append(i)
        (self.base_a, tail_a), (self.base_b, tail_b) = sorted(by_base.items(),
                                                              key=lambda t: len(t[1]))
        assert len(tail_a) == 2 and len(tail_b) == 4

        def address(i):
            return code[i]['offset']

        tail_a.sort(key=address)
        tail_b.sort(key=address)
        self.a0 = [code[i]['rd'] + e for i in tail_a for e in range(4)]
        self.b0 = [code[i]['rd'] + e for i in tail_b for e in range(4)]
        body = [i for i in self.loads if i < self.block_end]
        of_a = sorted((i for i in body if code[i]['ra'] == self.base_a), key=address)
        of_b = sorted((i for i in body if code[i]['ra'] == self.base_b), key=address)
        assert len(of_a) == 2 * (self.steps - 1) and len(of_b) == 4 * (self.steps - 1)
        self.groups = {g: of_a[2 * g - 2:2 * g] + of_b[4 * g - 4:4 * g]
                       for g in range(1, self.steps)}
        self.groups[self.steps] = tail_a + tail_b
        # The read barriers that guard the two address registers.
        self.guard = {}
        for base in (self.base_a, self.base_b):
            barriers = {code[i]['read_barrier'] for i in body if code[i]['ra'] == base} - {7}
            assert len(barriers) == 1, barriers
            self.guard[base] = barriers.pop()

    def _find_accumulators(self):
        """accumulators[row, column]: its register at loop entry, by the first FFMA that reads it."""
        self.accumulators, seen = {}, set()
        for x in self.code:
            if x['op'] == FFMA and x['rc'] not in seen:
                a, b = x['ra'], x['rb']
                if a in self.b0 and b in self.a0:
                    a, b = b, a
                if a in self.a0 and b in self.b0 and a not in seen and b not in seen:
                    key = (self.a0.index(a), self.b0.index(b))
                    assert key not in self.accumulators
                    self.accumulators[key] = x['rc']
            seen.update(written(x))
        assert len(set(self.accumulators.values())) == ROWS * COLUMNS, len(self.accumulators)

    def control_registers(self):
        used = set()
        for i in self.controls:
            x = self.code[i]
            if x['op'] in (MOV, ISETP, SHF, IADD3, 0x212, 0x824, LOP3, 0x211):
                rb = RZ if x['op'] in (IADD3, SHF, LOP3) else x['rb']
                used |= {r for r in (x['rd'], x['ra'], rb, x['rc']) if r != RZ}
            if x['op'] in (MOV, 0xc02):
                used.add(x['rd'])
        return used


class Registers:
    """Which registers the second fragment buffer and displaced temporaries may have."""

    def __init__(self, kernel, loop, highest, limit):
        used = set()
        for x in kernel.code:
            fields = (x['rd'], x['ra'], x['rb'], x['rc'])
            used.update(fields)
            if x['op'] == LDS:
                used |= {x['rd'] + e for e in range(4)}
            elif x['op'] != FFMA:
                for r in fields:
                    if r < 254:
                        used |= {r + 1} if r % 4 else {r + 1, r + 2, r + 3}
        used = {r for r in used if r <= highest + 3}
        accumulators = set(loop.accumulators.values())
        fragments = set(loop.a0) | set(loop.b0)
        controls = loop.control_registers()
        in_loop = {r for x in loop.code if x['op'] in (FFMA, LDS) for r in written(x)}
        mine = in_loop - accumulators - fragments - controls  # ptxas's other copies of both

        def free(r):
            return r in mine or r not in used

        quads = [q for q in range(0, limit - SPARE - 3, 4)
                 if all(r in mine or (r not in used and r > 8) for r in range(q, q + 4))]
        assert len(quads) >= LOADS, quads
        self.quads = quads[-LOADS:]
        taken = {q + e for q in self.quads for e in range(4)}
        self.free = [r for r in range(8, limit - SPARE) if free(r) and r not in taken]
        # Control temporaries that ptxas keeps in what is now an accumulator's or a fragment's.
        self.displaced = controls & (accumulators | fragments)


def retry_blocks(kernel, loop):
    """Positions in the kernel of the code outside the loop that a barrier wait jumps to."""
    out = []

    def inside(t):
        return kernel.first <= t <= kernel.last

    for i in loop.controls:
        if loop.code[i]['op'] != BRA or i == loop.size - 1:
            continue
        t = kernel.target(kernel.first + i)
        if inside(t):
            continue
        z = t
        while True:
            out.append(z)
            if kernel.code[z]['op'] == BRA and inside(kernel.target(z)):
                break
            z += 1
            assert z < t + 8
    return out


def move_temporaries(kernel, loop, registers):
    places = [kernel.first + i for i in loop.controls] + retry_blocks(kernel, loop)
    for old in registers.displaced:
        new, count = registers.free.pop(0), 0
        for place in places:
            words = kernel.words(place)
            x = decode(*words)
            for field in CONTROL_FIELDS.get(x['op'], ()):
                if x[field] == old:
                    word, bit = FIELD_AT[field]
                    words[word] = (words[word] & ~(255 << bit)) | (new << bit)
                    count += 1
            kernel.set_words(place, words)
        print(f'temporary R{old} -> R{new}: {count} fields')


def sequence(loop, a, b):
    """The FFMAs and LDS of a pass in order, for the slots between the control instructions."""
    load_at = {FIRST_LOAD + z * LOAD_SPACING: z for z in range(LOADS)}
    out = []
    for t in range(loop.steps):
        g = t + 1
        buffer = a[g & 1][::4] + b[g & 1][::4]
        for q, (i, j) in enumerate(ffma_order()):
            if q in load_at:
                z = load_at[q]
                source = loop.groups[g][z]
                rd = loop.code[source]['rd'] if g == loop.steps else buffer[z]
                out.append(('load', source, rd, g, z))
            out.append(('ffma', i, j, t, q))
    return out


def encode_load(kernel, loop, slot, source, rd, g, z):
    x = loop.code[source]
    if g == loop.steps:
        assert slot > loop.block_end, 'the next stage is not there before the wait'
        write_barrier, read_barrier = x['write_barrier'], x['read_barrier']
        assert write_barrier != 7
    else:
        assert slot < loop.block_start, 'the pointers have moved'
        write_barrier = 4 if g & 1 else 5
        guards = g == loop.steps - 1 and z in (1, 5)  # the last LDS of A and of B
        read_barrier = loop.guard[x['ra']] if guards else 7
    low, high = kernel.words(kernel.first + source)
    return [(low & ~(255 << 16)) | (rd << 16),
            (high & ~CONTROL & ~REUSE) | control(1, write_barrier, read_barrier)]


def set_reuse(words):
    """words: the FFMAs in order. An operand is kept if it is read again before it is displaced."""
    decoded = [decode(*w) for w in words]
    for q, x in enumerate(decoded):
        for slot, field in enumerate(('ra', 'rb')):
            for y in decoded[q + 1:q + 12]:
                if y[field] == x[field]:
                    words[q][1] |= 1 << (58 + slot)
                    break
                if (y[field] & 1) == (x[field] & 1):
                    break


def rebuild(kernel, loop, registers):
    second = registers.quads
    a = [loop.a0, [q + e for q in second[:2] for e in range(4)]]
    b = [loop.b0, [q + e for q in second[2:] for e in range(4)]]
    controls = set(loop.controls)
    slots = [i for i in range(loop.size) if i not in controls]
    items = dict(zip(slots, sequence(loop, a, b), strict=True))
    new = {}
    for slot, item in items.items():
        if item[0] == 'load':
            new[slot] = encode_load(kernel, loop, slot, *item[1:])
            continue
        _, i, j, t, q = item
        # The first FFMA of a k-step waits for its fragments; that of the loop for everything.
        wait = 0 if q else 0x3f if t == 0 else 1 << (4 if t & 1 else 5)
        rc = loop.accumulators[i, j]
        new[slot] = [FFMA | 7 << 12 | rc << 16 | a[t & 1][i] << 24 | b[t & 1][j] << 32,
                     rc | control(1, wait=wait)]
    for before, after in zip(loop.controls, loop.controls[1:]):
        if after - before <= 16:
            for slot in range(before + 1, after):
                if loop.code[slot]['stall'] > 1:
                    new[slot][1] = (new[slot][1] & ~(15 << 41)) | loop.code[slot]['stall'] << 41
    set_reuse([new[s] for s in slots if items[s][0] == 'ffma'])
    for slot, words in new.items():
        kernel.set_words(kernel.first + slot, words)


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    source, to = sys.argv[1:]
    kernel = Kernel(source)
    loop = Loop(kernel)
    registers = Registers(kernel, loop, *disassembly(source))
    print(f'{source}: {summary(kernel.loop)}')
    move_temporaries(kernel, loop, registers)
    rebuild(kernel, loop, registers)
    kernel.write(to)
    print(f'{to}: {summary(Kernel(to).loop)}')


if __name__ == '__main__':
    main()
