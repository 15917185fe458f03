"""gemmctl as its tests call it: exit statuses, a product of files, a slow way to the server."""

import contextlib
import socket
import threading
import time

import harness

CALL_FAILED = 1
UNUSABLE = 2


def assert_refused(done, status, *words):
    assert done.returncode == status, done
    for word in words:
        assert word in done.stderr, done.stderr


def multiply_command(address, folder, *flags):
    program = [harness.BIN / "gemmctl", "--address", address, "multiply"]
    return [*program, folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy", *flags]


class Relay:
    """Passes TCP connections on to `upstream`, so many bytes a second; closes them when that is
    None."""

    def __init__(self, upstream, bytes_per_second):
        self.upstream, self.bytes_per_second = upstream, bytes_per_second
        self.received = 0
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.upstream is None:
                    client.close()
                    continue
                host, port = self.upstream.rsplit(":", 1)
                server = socket.create_connection((host, int(port)))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(64 << 10):
                self.received += len(data)
                sink.sendall(data)
                time.sleep(len(data) / self.bytes_per_second)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
