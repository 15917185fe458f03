"""Starts real gemmd processes and talks to them as a stranger would: with stubs generated from
gemm.proto by stock tools, with the packages for google.rpc, health and reflection from PyPI, with
numpy, and with bytes put together by hand."""

import atexit
import contextlib
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_tools import protoc

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("GEMMD_BIN", REPOSITORY / "build" / "dev" / "bin")).resolve()
SANITIZED = bool(os.environ.get("GEMMD_SANITIZE"))
DEVICE = os.environ.get("GEMMD_TEST_DEVICE", "cpu")
PATIENCE = 60.0  # seconds that anything may take that should take far less; scaled for sanitizers
if SANITIZED:
    PATIENCE *= 4

# For a server whose calls in flight are to end by themselves, however busy the machine is.
PATIENT_DRAIN = f"--drain-timeout={PATIENCE:.0f}s"

MIB = 1 << 20
MULTIPLY = "/gemm.v1.GemmService/Multiply"


def _generate_stubs():
    folder = tempfile.mkdtemp(prefix="gemmd-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{REPOSITORY / 'proto'}", f"-I{well_known}", f"--python_out={folder}"]
    arguments += [f"--grpc_python_out={folder}"]
    arguments += ["gemm/v1/gemm.proto", "gemm/v1/error_details.proto"]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed on gemm.proto")
    sys.path.insert(0, folder)
    return (importlib.import_module(f"gemm.v1.{name}") for name in ("gemm_pb2", "gemm_pb2_grpc"))


gemm_pb2, gemm_pb2_grpc = _generate_stubs()

DATA_TYPES = {
    np.dtype(np.float32): gemm_pb2.DATA_TYPE_F32,
    np.dtype(np.float64): gemm_pb2.DATA_TYPE_F64,
}


def clean_environment(**changes):
    """The environment without proxies and our own variables, then changed."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith("_PROXY") and not name.startswith("GEMMD_")
    }
    return environment | changes


def small_integers(seed, *shape, dtype=np.float32):
    """Values whose products and sums are exact in f32, so that results must be equal."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def reals(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product_request(a, b, c=None, **fields):
    """A MultiplyRequest for dense 2-D arrays; `fields` are set on its product."""
    request = gemm_pb2.MultiplyRequest(payloads=[a.tobytes(), b.tobytes()])
    product = request.product
    product.m, product.k = a.shape
    product.n = b.shape[1]
    product.data_type = DATA_TYPES[a.dtype]
    product.a.payload, product.b.payload = 0, 1
    if c is not None:
        request.payloads.append(c.tobytes())
        product.c.payload = 2
    for name, value in fields.items():
        setattr(product, name, value)
    return request


def small_request():
    return product_request(small_integers(1, 6, 9), small_integers(2, 9, 4))


def result_of(reply, *shape, dtype=np.float32):
    assert len(reply.payloads) == 1
    return np.frombuffer(reply.payloads[0], dtype).reshape(shape)


class Failure:
    """A failed call, with its google.rpc details taken from the wire."""

    def __init__(self, error):
        self.code = error.code()
        self.message = error.details()
        self.reason = self.field = self.retry_seconds = None
        self.violations = []
        trailers = dict(error.trailing_metadata() or ())
        if "grpc-status-details-bin" not in trailers:
            return
        status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
        assert status.code == self.code.value[0]
        assert status.message == self.message
        for detail in status.details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo()
                detail.Unpack(info)
                assert info.domain == "gemmd"
                self.reason = info.reason
            elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                bad = error_details_pb2.BadRequest()
                detail.Unpack(bad)
                self.violations = list(bad.field_violations)
                self.field = self.violations[0].field
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = error_details_pb2.RetryInfo()
                detail.Unpack(retry)
                self.retry_seconds = retry.retry_delay.ToTimedelta().total_seconds()
            else:
                raise AssertionError(f"unknown detail {detail.type_url}")

    def __repr__(self):
        return f"{self.code}: {self.message} (reason {self.reason}, field {self.field})"


def failure_of(call):
    """Runs `call`, which must fail, and says how."""
    try:
        call()
    except grpc.RpcError as error:
        return Failure(error)
    raise AssertionError("the call succeeded")


@contextlib.contextmanager
def open_channel(address, *options):
    """A connection of its own, without limits on message size."""
    options = (
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        *options,
    )
    with grpc.insecure_channel(address, options) as channel:
        yield channel


def raw_multiply(channel):
    """Multiply, of bytes as they are."""
    return channel.unary_unary(
        MULTIPLY, request_serializer=None, response_deserializer=gemm_pb2.MultiplyReply.FromString
    )


def gemmd_command(*flags):
    """gemmd on GEMMD_TEST_DEVICE, by default the CPU, and on ports of its own, except where `flags`
    say otherwise."""
    defaults = {
        "--device": DEVICE,
        "--listen": "127.0.0.1:0",
        "--metrics-listen": "127.0.0.1:0",
        "--log-format": "json",
    }
    given = {flag.split("=")[0] for flag in flags}
    defaults = [f"{name}={value}" for name, value in defaults.items() if name not in given]
    return [BIN / "gemmd", *defaults, *flags]


class Server:
    """A gemmd process."""

    def __init__(self, *flags, environment=None):
        self._log = tempfile.NamedTemporaryFile("r", prefix="gemmd-log-", suffix=".jsonl")
        command = gemmd_command(*flags)
        with open(self._log.name, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment or clean_environment()
            )
        self.pid = self.process.pid
        self.address = self.metrics_address = None
        try:
            self._await_start()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _await_start(self):
        def started():
            if self.process.poll() is not None:
                raise AssertionError(f"gemmd exited with {self.process.returncode}:\n{self.log_end()}")
            record = next((r for r in self.records() if "grpc_address" in r), None)
            if record is None:
                return False
            self.address = record["grpc_address"] or record["unix_address"]
            self.metrics_address = record["metrics_address"]
            return True

        wait_until(started, "the startup record in the log")
        self.channel_context = open_channel(self.address)
        self.channel = self.channel_context.__enter__()
        self.stub = gemm_pb2_grpc.GemmServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        wait_until(self.serving, "health to say SERVING")

    def log(self):
        return pathlib.Path(self._log.name).read_text(encoding="utf-8")

    def log_end(self):
        return "\n".join(self.log().splitlines()[-10:])

    def records(self):
        """The log's complete records; a line that is not JSON is an error."""
        return [json.loads(line) for line in self.log().splitlines(keepends=True) if line[-1] == "\n"]

    def health_status(self, service=""):
        request = health_pb2.HealthCheckRequest(service=service)
        return self.health.Check(request, timeout=PATIENCE).status

    def serving(self):
        try:
            return self.health_status() == health_pb2.HealthCheckResponse.SERVING
        except grpc.RpcError:
            return False

    def multiply(self, request, timeout=PATIENCE, **options):
        return self.stub.Multiply(request, timeout=timeout, **options)

    def info(self):
        return self.stub.GetServerInfo(gemm_pb2.GetServerInfoRequest(), timeout=PATIENCE)

    def check_alive(self):
        """The server is up and still multiplies correctly."""
        status = self.process.poll()
        assert status is None, f"gemmd exited with {status}:\n{self.log_end()}"
        a, b = small_integers(1, 7, 5), small_integers(2, 5, 3)
        with open_channel(self.address) as channel:
            stub = gemm_pb2_grpc.GemmServiceStub(channel)
            reply = stub.Multiply(product_request(a, b), timeout=PATIENCE)
        np.testing.assert_array_equal(result_of(reply, 7, 3), a @ b)

    # Metrics.

    def metrics_text(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.metrics_address}/metrics", timeout=PATIENCE) as page:
            return page.read().decode()

    def metric(self, name, **labels):
        """The sum over the samples of `name` that have these labels."""
        total, found = 0.0, False
        for line in self.metrics_text().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name:
                have = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
                if labels.items() <= have.items():
                    total, found = total + float(match[3]), True
        assert found, f"no {name} {labels} in the metrics"
        return total

    # Processor time and memory.

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status_bytes(self, field):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024

    def resident_bytes(self):
        return self._status_bytes("VmRSS")

    def peak_resident_bytes(self):
        return self._status_bytes("VmHWM")

    def reset_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    # The end.

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout=PATIENCE):
        return self.process.wait(timeout)

    def close(self):
        self.channel_context.__exit__(None, None, None)
        if self.process.poll() is None:
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self._log.close()


@contextlib.contextmanager
def running_server(*flags, **options):
    """A server for one test, which must end it or leave it fit to drain cleanly."""
    server = Server(*flags, **options)
    try:
        yield server
    except BaseException:
        print(f"--- end of the log of gemmd {server.pid}\n{server.log_end()}", file=sys.stderr)
        raise
    finally:
        stopped_by_test = server.process.poll() is not None
        server.close()
        if not stopped_by_test:
            assert server.process.returncode == 0, f"gemmd ended with {server.process.returncode}"


@contextlib.contextmanager
def process_of(command, **options):
    """A program that the test ends, or that is killed when the test fails."""
    with subprocess.Popen(list(map(str, command)), env=clean_environment(), **options) as process:
        try:
            yield process
        finally:
            process.kill()


def run(command, environment=None, timeout=PATIENCE):
    """Runs a program to its end, which must come in time."""
    return subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
        env=environment or clean_environment(),
    )


def wait_until(condition, what, timeout=PATIENCE):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(0.02)
