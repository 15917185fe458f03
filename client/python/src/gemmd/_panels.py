"""Matrices cut into pieces of a fixed size, for what does not fit one message."""

from __future__ import annotations

from gemmd.errors import ResourceExhausted

# Of one message each way. The buffers of larger ones, with several under way, come fresh from the
# kernel each time; smaller ones spend their time on handing the interpreter from thread to thread.
PANEL_BYTES = 4 << 20

# A product with more than that to send and to fetch goes in panels though it fit a message: they
# are faster side by side, in spite of the calls that put b and delete it; or where it is there.
WHOLE_BYTES = 24 << 20
WHOLE_BYTES_BESIDE_B = 10 << 20


def panel_rows(row_bytes: int, rows: int, limit_bytes: int) -> int:
    """Rows of a panel whose every row takes `row_bytes` of a message. It depends on the arguments
    alone, and never on how many connections there are, so that results do not either."""
    if row_bytes > limit_bytes:
        raise ResourceExhausted(
            f"one row needs a message of {row_bytes} bytes, over the limit of {limit_bytes}",
            reason="MESSAGE_TOO_LARGE",
            hint="start the server with a larger --message-limit (Client.info() tells the present "
            "one), or work on fewer columns at once",
        )
    return max(1, min(rows, min(PANEL_BYTES, limit_bytes) // max(1, row_bytes)))


def cut(count: int, step: int) -> list[tuple[int, int]]:
    """Begin and end of the pieces of `count`, in order."""
    return [(begin, min(count, begin + step)) for begin in range(0, count, step)]
