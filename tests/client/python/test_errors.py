"""Bad arguments, which no call is made for, and what servers and networks answer."""

import pickle
import socket
import threading

import grpc
import harness
import numpy as np
import pytest
from fake_server import fake_server, refuse
from harness import MIB, running_server, small_integers

import gemmd

A, B = small_integers(1, 6, 9), small_integers(2, 9, 4)


@pytest.fixture
def nowhere():
    """A client that would fail with ConnectionFailed if it made a call."""
    with gemmd.Client("127.0.0.1:1", max_retries=0) as client:
        yield client


# Arguments.

WRONG_TYPES = [
    (np.int64, "numpy.float64"),
    (np.int8, "numpy.float32"),
    (np.uint16, "numpy.float32"),
    (np.float16, "numpy.float32"),
    (np.longdouble, "numpy.float64"),
    (np.complex64, "real and imaginary"),
    (np.bool_, "numpy.float32"),
    (object, "numpy.float64"),
    ("U3", "numpy.float32"),
    ("M8[s]", "numpy.float32"),
]


@pytest.mark.parametrize(("dtype", "advice"), WRONG_TYPES)
@pytest.mark.parametrize("argument", ["a", "b", "c"])
def test_types_that_the_service_does_not_take(nowhere, argument, dtype, advice):
    arguments = {"a": A, "b": B, "c": A @ B}
    arguments[argument] = np.ones(arguments[argument].shape, np.int8).astype(dtype)
    with pytest.raises(gemmd.InvalidType) as caught:
        nowhere.matmul(**arguments)
    error = caught.value
    assert isinstance(error, TypeError) and isinstance(error, ValueError)
    assert error.code == "INVALID_ARGUMENT" and error.field == argument
    assert argument in error.message and str(arguments[argument].dtype) in error.message
    assert advice in error.hint and error.hint in str(error)


def test_mixed_types(nowhere):
    with pytest.raises(gemmd.InvalidType, match="b has dtype float64 but a has float32") as caught:
        nowhere.matmul(A, B.astype(np.float64))
    assert "astype(numpy.float32)" in caught.value.hint
    with pytest.raises(TypeError, match="c has dtype float64"):
        nowhere.matmul(A, B, c=np.ones((6, 4)))
    with pytest.raises(TypeError, match="out is float64, but the result is float32"):
        nowhere.matmul(A, B, out=np.ones((6, 4)))
    with pytest.raises(TypeError, match="masked"):
        nowhere.matmul(np.ma.masked_equal(A, 3), B)
    with pytest.raises(TypeError, match="a (cannot be made an array|has dtype object)"):
        nowhere.matmul([[1.0], [1.0, 2.0]], B)
    with pytest.raises(TypeError, match="out is a list"):
        nowhere.matmul(A, B, out=[[0.0]])


BAD_VALUES = {
    "inner sizes": (dict(a=A, b=A), "b", "6 rows but a has 9 columns"),
    "inner sizes of vectors": (dict(a=A[0], b=A[0, :4]), "b", "4 rows but a has 9"),
    "batches": (dict(a=np.ones((2, 1, 1)), b=np.ones((3, 1, 1))), "b", "broadcast"),
    "scalar": (dict(a=np.float32(3), b=B), "a", "scalar"),
    "scalar b": (dict(a=A, b=np.float32(3)), "b", "scalar"),
    "c": (dict(a=A, b=B, c=A), "c", r"\(6, 9\).*\(6, 4\)"),
    "larger c": (dict(a=A, b=B, c=np.ones((2, 6, 4), np.float32)), "c", "broadcast"),
    "beta without c": (dict(a=A, b=B, beta=2.0), "c", "beta is 2.0"),
    "shape of out": (dict(a=A, b=B, out=np.ones((4, 6), np.float32)), "out", r"\(4, 6\)"),
    "read-only out": (
        dict(a=A, b=B, out=np.broadcast_to(np.float32(0), (6, 4))),
        "out",
        "read-only",
    ),
    "precision": (dict(a=A, b=B, precision="sloppy"), "precision", "strict"),
    "unspecified": (dict(a=A, b=B, precision="unspecified"), "precision", "strict"),
    "alpha": (dict(a=A, b=B, alpha=1j), "alpha", "complex"),
    "alpha as text": (dict(a=A, b=B, alpha="2"), "alpha", "str"),
    "boolean beta": (dict(a=A, b=B, c=A @ B, beta=True), "beta", "bool"),
    "huge alpha": (dict(a=A, b=B, alpha=10**400), "alpha", "float"),
    "timeout": (dict(a=A, b=B, timeout=0), "timeout", "above 0"),
    "timeout that is no number": (dict(a=A, b=B, timeout=float("nan")), "timeout", "above 0"),
    "long request_id": (dict(a=A, b=B, request_id="x" * 129), "request_id", "128"),
    "forged request_id": (dict(a=A, b=B, request_id="a\nb"), "request_id", "printable"),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_values(nowhere, name):
    arguments, field, words = BAD_VALUES[name]
    with pytest.raises(gemmd.InvalidArgument, match=words) as caught:
        nowhere.matmul(**arguments)
    assert caught.value.field == field


def test_huge_products_are_refused_without_touching_memory(nowhere):
    one = np.float32(1)
    with pytest.raises(gemmd.InvalidArgument, match="m \\* n \\* k"):
        nowhere.matmul(np.broadcast_to(one, (2**30, 2**30)), np.broadcast_to(one, (2**30, 2**30)))
    with fake_server(None) as server, gemmd.Client(server.address) as client:
        for shapes in [((2, 2**40), (2**40, 2)), ((3, 2, 2**40), (2**40,))]:
            with pytest.raises(gemmd.ResourceExhausted, match="a row of a") as caught:
                client.matmul(*(np.broadcast_to(one, shape) for shape in shapes))
            assert caught.value.reason == "MESSAGE_TOO_LARGE" and "parts of k" in caught.value.hint
        with pytest.raises(gemmd.ResourceExhausted, match="one row") as caught:
            client.put(np.broadcast_to(one, (2, 2**40)))
        with pytest.raises(MemoryError):
            client.matmul(np.broadcast_to(one, (2**50, 1)), np.ones((1, 2), np.float32))
        assert server.requests == []


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("", "empty"),
        ("localhost", "no port"),
        ("[::1]", "no port"),
        (":50051", "no host"),
        ("::1:50051", "brackets"),
        ("host:0", "port outside"),
        ("host:70000", "port outside"),
        ("host:http", "port outside"),
        ("http://host:50051", "http://"),
    ],
)
def test_addresses(address, fault):
    with pytest.raises(gemmd.InvalidArgument, match=fault) as caught:
        gemmd.Client(address)
    assert caught.value.field == "address" and "host:port" in caught.value.hint


@pytest.mark.parametrize(
    "options",
    [
        dict(timeout=-1),
        dict(max_retries=-1),
        dict(max_retries=1.5),
        dict(backoff_initial=0),
        dict(backoff_limit="1s"),
        dict(message_limit_bytes=0),
        dict(message_limit_bytes=2**31),
    ],
)
def test_options(options):
    with pytest.raises(gemmd.InvalidArgument) as caught:
        gemmd.Client("host:1", **options)
    assert caught.value.field == next(iter(options))


def test_address_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("GEMMD_ADDRESS", server.address)
    with gemmd.Client() as client:
        assert client.address == server.address
        assert client.health() is gemmd.Health.SERVING
    monkeypatch.delenv("GEMMD_ADDRESS")
    assert gemmd.Client().address == "127.0.0.1:50051"


def test_errors_survive_pickling():
    error = gemmd.DeadlineExceeded("late", reason="DEADLINE_PASSED", hint="hurry", retry_delay=2.0)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is gemmd.DeadlineExceeded
    assert vars(copy) == vars(error) and str(copy) == str(error)
    assert isinstance(copy, TimeoutError)


# The other calls.


def test_info(client):
    info = client.info()
    assert info.version and info.commit and info.kernels and info.uptime > 0
    assert info.dtypes == ("float32", "float64")
    assert info.message_limit_bytes == 64 * MIB
    (device,) = info.devices
    assert (device.kind, device.name, device.healthy) == ("cpu", "cpu", True)


def test_explain_names_the_kernel_that_runs(client):
    explanation = client.explain(6, 4, 9, dtype="float32", transpose_b=True)
    report = client.matmul_result(A, np.asfortranarray(B)).report
    assert explanation.chosen == report.kernel and explanation.device == "cpu"
    why_not = {candidate.kernel: candidate.why_not for candidate in explanation.candidates}
    assert why_not[explanation.chosen] == "" and any(why_not.values())
    with pytest.raises(gemmd.InvalidArgument) as caught:
        client.explain(-1, 4, 9)
    assert caught.value.reason == "INVALID_REQUEST" and caught.value.field == "product.m"
    for wrong in (dict(m=2**64, n=1, k=1), dict(m=1.5, n=1, k=1)):
        with pytest.raises(gemmd.InvalidArgument, match="m is"):
            client.explain(**wrong)
    with pytest.raises(gemmd.InvalidType):
        client.explain(1, 1, 1, dtype=np.int32)


# What the server refuses.


def test_a_server_whose_limit_has_shrunk():
    """What the client knows of it is out of date: one call fails, the next goes in panels."""
    wide = small_integers(3, 900, 900)
    with running_server() as server:
        client = gemmd.Client(server.address, max_retries=20)
        np.testing.assert_array_equal(client.matmul(wide, wide), wide @ wide)
        address = server.address
    with running_server(f"--listen={address}", "--message-limit=1MiB"), client:
        with pytest.raises(gemmd.ResourceExhausted) as caught:
            client.matmul(wide, wide)
        assert caught.value.reason == "MESSAGE_TOO_LARGE"
        assert "--message-limit" in caught.value.hint
        result = client.matmul_result(wide, wide)
        np.testing.assert_array_equal(result.array, wide @ wide)
        assert len(result.reports) > 1


def test_a_server_that_is_too_old():
    def unknown(_number, _request, context):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    with fake_server(unknown) as server, gemmd.Client(server.address) as client:
        server.info = None
        with pytest.raises(gemmd.Unimplemented) as caught:
            client.info()
        assert "older" in caught.value.hint and isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(
    "reply", [b"\xff\xff", b"\x0b", b"\xc2\x3e\x7f1234", b"", b"\xc2\x3e\x01x"]
)
def test_replies_that_make_no_sense(reply):
    with fake_server(lambda *_: reply) as server, gemmd.Client(server.address) as client:
        with pytest.raises(gemmd.Internal, match="makes no sense") as caught:
            client.matmul(A, B)
        assert caught.value.reason == "BAD_REPLY"


def test_internal_errors_keep_the_reason():
    def fail(_number, _request, context):
        refuse(context, grpc.StatusCode.INTERNAL, "the device failed", "DEVICE_FAILED")

    with fake_server(fail) as server, gemmd.Client(server.address) as client:
        with pytest.raises(gemmd.Internal, match="the device failed") as caught:
            client.matmul(A, B)
        assert caught.value.reason == "DEVICE_FAILED" and "log" in caught.value.hint
        assert len(server.requests) == 1


def test_codes_without_a_class_of_their_own():
    def fail(_number, _request, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

    with fake_server(fail) as server, gemmd.Client(server.address) as client:
        server.info = None
        with pytest.raises(gemmd.GemmdError, match="who are you") as caught:
            client.info()
        assert type(caught.value) is gemmd.GemmdError and caught.value.code == "UNAUTHENTICATED"


def test_details_of_another_kind_do_no_harm():
    def fail(_number, _request, context):
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff\xff"),))
        context.abort(grpc.StatusCode.INTERNAL, "proxy trouble")

    with fake_server(fail) as server, gemmd.Client(server.address) as client:
        server.info = None
        with pytest.raises(gemmd.Internal, match="proxy trouble"):
            client.info()


# The network.


def connection_failure(address, **options):
    with gemmd.Client(address, max_retries=0, **options) as client:
        with pytest.raises(gemmd.ConnectionFailed) as caught:
            client.matmul(A, B)
    error = caught.value
    assert isinstance(error, ConnectionError) and isinstance(error, gemmd.Unavailable)
    assert error.code == "UNAVAILABLE" and error.reason is None
    assert address in error.hint, error
    return error


def test_no_server():
    assert "is gemmd running there" in connection_failure("127.0.0.1:1").hint


def test_a_name_that_does_not_resolve():
    assert "cannot be found" in connection_failure("no-such-host.invalid:50051").hint


def test_no_socket_file(tmp_path):
    assert "is gemmd running there" in connection_failure(f"unix:{tmp_path}/none").hint


def listener(answer):
    """Accepts one connection, sends `answer` and closes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 20)
            connection.sendall(answer)
            listening.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_server_that_expects_tls():
    alert = b"\x15\x03\x03\x00\x02\x02\x46"  # What OpenSSL answers to plaintext.
    assert "TLS" in connection_failure(listener(alert)).hint


def test_a_web_server():
    """Such as the one on gemmd's metrics port."""
    page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    assert "speaks HTTP but not gRPC" in connection_failure(listener(page)).hint


def test_a_proxy_is_used_only_when_asked_for(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with gemmd.Client(server.address) as client:
        np.testing.assert_array_equal(client.matmul(A, B), A @ B)
    assert "http_proxy" in connection_failure(server.address, use_http_proxy=True).hint


def test_an_address_that_swallows_packets():
    """The listener never accepts, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with gemmd.Client(address, timeout=1.0) as client:
            with pytest.raises((gemmd.DeadlineExceeded, gemmd.ConnectionFailed)) as caught:
                client.health()
        assert address in caught.value.hint


def test_deadline():
    gate = threading.Event()

    def dawdle(*_):
        gate.wait(harness.PATIENCE)
        return b""

    with fake_server(dawdle) as server, gemmd.Client(server.address, timeout=0.3) as client:
        with pytest.raises(gemmd.DeadlineExceeded) as caught:
            client.matmul(A, B)
        assert isinstance(caught.value, TimeoutError) and "raise timeout" in caught.value.hint
        gate.set()
