"""Reading and patching the machine code (sm_90) of a cubin: as much as the other tools here need.

An instruction is 16 bytes, two little-endian words. The fields used here:
  low word   0-11 opcode, 12-15 predicate, 16-23 rd, 24-31 ra, 32-39 rb, 40-63 offset of a load
  high word  0-7 rc, 41-44 stall, 45 yield, 46-48 write barrier, 49-51 read barrier (7: none),
             52-57 barriers to wait for, 58-61 .reuse of the operand slots a, b, c
Register 255 is RZ. Found by comparing with nvdisasm and by patching; NVIDIA documents none of it.
"""

import struct

FFMA, LDS, BRA = 0x223, 0x984, 0x947
RZ = 255
CONTROL = ((1 << 17) - 1) << 41  # stall .. wait, in the high word
REUSE = 15 << 58


def decode(low, high):
    return dict(op=low & 0xfff, rd=(low >> 16) & 255, ra=(low >> 24) & 255, rb=(low >> 32) & 255,
                rc=high & 255, offset=(low >> 40) & 0xffffff, stall=(high >> 41) & 15,
                write_barrier=(high >> 46) & 7, read_barrier=(high >> 49) & 7,
                reuse=(high >> 58) & 15)


def control(stall, write_barrier=7, read_barrier=7, wait=0, yield_bit=1):
    """The control fields of a high word. yield_bit 0 makes the scheduler prefer the other warp."""
    return (stall << 41 | yield_bit << 45 | write_barrier << 46 | read_barrier << 49 | wait << 52)


class Kernel:
    """One kernel of a cubin, and its main loop: the shortest that is mostly FFMAs, 512 or more if
    there is such a loop (a product's last k-steps have one of their own)."""

    def __init__(self, path, name=None):
        self.data = bytearray(open(path, 'rb').read())
        self.name, self.start, self.size = self._find(name)
        self.code = [decode(*self.words(i)) for i in range(self.size // 16)]
        self.first, self.last = self._main_loop()
        self.loop = self.code[self.first:self.last + 1]

    def _find(self, name):
        d = self.data
        table, = struct.unpack_from('<Q', d, 40)
        entry, count, names = struct.unpack_from('<HHH', d, 58)
        sections = [struct.unpack_from('<IIQQQQIIQQ', d, table + i * entry) for i in range(count)]
        found = []
        for s in sections:
            at = sections[names][4] + s[0]
            title = d[at:d.index(0, at)].decode()
            if title.startswith('.text.') and (name is None or name in title):
                found.append((title[len('.text.'):], s[4], s[5]))
        if len(found) != 1:
            raise SystemExit(f'one kernel expected, found {[f[0] for f in found]}')
        return found[0]

    def words(self, i):
        return list(struct.unpack_from('<QQ', self.data, self.start + i * 16))

    def set_words(self, i, words):
        struct.pack_into('<QQ', self.data, self.start + i * 16, *words)

    def target(self, i):
        """Where branch i goes: a signed distance of 4-byte units from the next instruction."""
        low, high = self.words(i)
        v = ((low >> 34) | ((high & 0xffff) << 30)) & ((1 << 46) - 1)
        if v >> 45:
            v -= 1 << 46
        return (i * 16 + 16 + ((v << 8) | ((low >> 16) & 255)) * 4) // 16

    def _main_loop(self):
        loop = self._shortest_loop(512) or self._shortest_loop(64)
        if loop is None:
            raise SystemExit('no loop of FFMAs found')
        return loop

    def _shortest_loop(self, least):
        best = None
        for i, x in enumerate(self.code):
            if x['op'] != BRA:
                continue
            t = self.target(i)
            ffmas = sum(y['op'] == FFMA for y in self.code[t:i + 1]) if t < i else 0
            if ffmas >= max(least, 0.5 * (i - t)) and (best is None or i - t < best[1] - best[0]):
                best = (t, i)
        return best

    def write(self, path):
        open(path, 'wb').write(self.data)
