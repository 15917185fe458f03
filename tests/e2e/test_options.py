"""Options, and where the server listens."""

import contextlib
import os
import pathlib
import resource
import socket
import tempfile
import time

import harness
import pytest
from harness import (
    MIB,
    PATIENCE,
    clean_environment,
    gemm_pb2_grpc,
    gemmd_command,
    open_channel,
    process_of,
    run,
    running_server,
    small_request,
    wait_until,
)


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--no-such-flag"], "no-such-flag"),
        (["surplus"], "surplus"),
        (["--message-limit=12parsecs"], "message-limit"),
        (["--message-limit=-1"], "message-limit"),
        (["--message-limit=3GiB"], "message-limit"),
        (["--admission-budget=1MiB"], "admission-budget"),
        (["--device=tpu"], "device"),
        (["--listen=nonsense"], "listen"),
        (["--listen=127.0.0.1:70000"], "listen"),
        (["--drain-timeout=soon"], "drain-timeout"),
        (["--log-format=xml"], "log-format"),
        (["--config=/no/such/file"], "/no/such/file"),
        (["--listen=0.0.0.0:0"], "--insecure"),
        (["--listen=[::]:0"], "--insecure"),
    ],
)
def test_bad_options(flags, words):
    done = run(gemmd_command(*flags))
    assert done.returncode == 2, done
    assert words in done.stderr, done.stderr


@pytest.mark.parametrize("text", ["no-such-key = 1\n", "[section]\nlisten = '127.0.0.1:0'\n", "some words\n"])
def test_bad_config_file(tmp_path, text):
    config = tmp_path / "gemmd.toml"
    config.write_text(text, encoding="utf-8")
    done = run(gemmd_command(f"--config={config}"))
    assert done.returncode == 2, done
    assert done.stderr.strip(), done


def test_bad_environment():
    done = run(gemmd_command(), clean_environment(GEMMD_MESSAGE_LIMIT="lots"))
    assert done.returncode == 2, done
    assert "GEMMD_MESSAGE_LIMIT" in done.stderr or "message-limit" in done.stderr, done.stderr


def test_flag_beats_environment_beats_file(tmp_path):
    config = tmp_path / "gemmd.toml"
    config.write_text('message-limit = "1MiB"\nslow-call = "2s"\n', encoding="utf-8")

    def limit_of(*flags, **environment):
        environment = clean_environment(**environment)
        with running_server(f"--config={config}", *flags, environment=environment) as server:
            return server.info().message_limit_bytes

    assert limit_of() == MIB
    assert limit_of(GEMMD_MESSAGE_LIMIT="2MiB") == 2 * MIB
    assert limit_of("--message-limit=3MiB", GEMMD_MESSAGE_LIMIT="2MiB") == 3 * MIB


def test_help_and_version():
    for flag in ("--help", "--version"):
        done = run([harness.BIN / "gemmd", flag])
        assert done.returncode == 0 and done.stdout.strip(), done
    assert "--message-limit" in run([harness.BIN / "gemmd", "--help"]).stdout


def test_listening_to_the_network_when_asked():
    with running_server("--insecure", "--listen=0.0.0.0:0") as server:
        port = server.address.rsplit(":", 1)[1]
        server.address = f"127.0.0.1:{port}"
        server.check_alive()


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
@pytest.mark.parametrize("everywhere", ["0.0.0.0", "[::]"])
def test_everywhere_is_ipv4_and_ipv6(everywhere):
    with running_server("--insecure", f"--listen={everywhere}:0") as server:
        port = server.address.rsplit(":", 1)[1]
        for host in ("127.0.0.1", "[::1]"):
            server.address = f"{host}:{port}"
            server.check_alive()


def test_listening_at_a_name():
    with running_server("--listen=localhost:0") as server:
        assert server.address.startswith("localhost:")
        server.check_alive()
    done = run(gemmd_command("--listen=no.such.host.invalid:50051", "--insecure"))
    assert done.returncode == 1, done
    assert "no.such.host.invalid:50051" in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_too_many_connections_are_taken_once_others_have_gone(kind, tmp_path_factory):
    # gRPC's own listener would take none for ever after.
    path = str(tmp_path_factory.mktemp("s") / "s")
    with running_server(f"--unix-listen={path}") as server, contextlib.ExitStack() as stack:
        descriptors = pathlib.Path(f"/proc/{server.pid}/fd")
        limit = len(list(descriptors.iterdir())) + 8
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
        host, port = server.address.rsplit(":", 1)
        if kind == "unix":
            server.address = f"unix:{path}"
        for _ in range(30):
            if kind == "unix":
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
            else:
                stack.enter_context(socket.create_connection((host, int(port))))

        def complaints():
            return [r for r in server.records() if r.get("error") == "Too many open files"]

        wait_until(complaints, "the files to run out")
        busy = server.cpu_seconds()
        time.sleep(2)
        assert server.cpu_seconds() - busy < 0.2, "it waits, and does not spin"
        assert server.serving(), "those that are connected are served"
        stack.close()
        server.check_alive()
        assert len(complaints()) < 5


def test_closed_standard_streams():
    # The log goes nowhere, and not into what is opened next.
    with tempfile.TemporaryDirectory(prefix="gemmd-") as folder:
        path = f"{folder}/gemmd.sock"
        flags = ("--listen=", f"--unix-listen={path}", "--metrics-listen=", "--log-level=debug")
        closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *gemmd_command(*flags)]
        with process_of(closed) as process:
            wait_until(lambda: os.path.exists(path) or process.poll() is not None, "its socket")
            assert process.poll() is None
            with open_channel(f"unix:{path}") as channel:
                stub = gemm_pb2_grpc.GemmServiceStub(channel)
                stub.Multiply(small_request(), timeout=PATIENCE, wait_for_ready=True)
            files = [os.readlink(f"/proc/{process.pid}/fd/{file}") for file in range(3)]
            assert files == ["/dev/null"] * 3
            process.terminate()
            assert process.wait(PATIENCE) == 0


def test_second_server_on_the_port(server):
    for flag, address in (("listen", server.address), ("metrics-listen", server.metrics_address)):
        done = run(gemmd_command(f"--{flag}={address}"))
        assert done.returncode == 1, done
        assert address in done.stderr, done.stderr
