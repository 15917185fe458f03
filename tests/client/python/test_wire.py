"""The hand-written half of the wire format, against protobuf."""

import numpy as np
import pytest
from fake_server import parse_request

from gemmd import _contract
from gemmd._payload import make_payload
from gemmd._wire import join_message, split_message, varint


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384, 1 << 21])
def test_join(size):
    description = _contract.MultiplyRequest(request_id="id").SerializeToString()
    arrays = [np.arange(size, dtype=np.uint8), np.arange(5.0)]
    message = join_message(description, [make_payload(array) for array in arrays])
    parsed = parse_request(message)
    assert list(parsed.payloads) == [array.tobytes() for array in arrays]
    assert parsed.request_id == "id"


def test_join_of_pieces():
    """Few large ones and many small ones take different roads."""
    for shape in [(3, 1 << 20), (4096, 256)]:
        wide = np.random.default_rng(1).standard_normal(shape, np.float32)
        part = wide[:, : shape[1] // 2]
        payload = make_payload(part)
        assert len(payload.pieces) == shape[0]
        message = join_message(b"", [payload])
        assert type(message) is bytes and message.endswith(part.tobytes())
        assert list(parse_request(message).payloads) == [part.tobytes()]


def test_split_takes_fields_in_any_order_and_unknown_ones():
    reply = _contract.MultiplyReply()
    reply.report.kernel = "kernel"
    report = reply.SerializeToString()
    payload = b"\xc2\x3e\x03abc"
    unknown = b"\x98\x06\x96\x01" + b"\xa1\x06" + b"12345678" + b"\xad\x06" + b"1234"
    message = payload + unknown + report
    split = split_message(message)
    assert [message[at : at + size] for at, size in split.payloads] == [b"abc"]
    assert split.description == unknown + report
    assert _contract.MultiplyReply.FromString(split.description).report.kernel == "kernel"
    # The payload field with another wire type is no payload.
    assert split_message(b"\xc0\x3e\x05").payloads == []


@pytest.mark.parametrize(
    "message",
    [
        b"\x80",
        b"\xc2\x3e",
        b"\xc2\x3e\x04abc",
        b"\x0b",
        b"\x09123",
        b"\x80" * 11 + b"\x01",
        b"\x08",
    ],
)
def test_split_refuses_what_is_no_message(message):
    with pytest.raises(ValueError):
        split_message(message)


def test_varint():
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]


def test_garbage_never_does_worse_than_a_value_error():
    generator = np.random.default_rng(1)
    for _ in range(2000):
        garbage = generator.bytes(int(generator.integers(0, 40)))
        try:
            split = split_message(garbage)
        except ValueError:
            continue
        assert all(at + size <= len(garbage) for at, size in split.payloads)
