"""Runs programs in a file system root of their own, the way a container runtime would: read-only,
as nobody in particular, as process 1, on a network of their own, with an environment of their own.
Needs root, and no container engine.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / "build" / "package"  # ignored by git; may be deleted at any time
PATIENCE = 60.0  # seconds that anything may take that should take far less
ADDRESS = "192.0.2.1"  # not loopback; the only other address in the network of a Sandbox
USER = 65532

# Debian's OpenBLAS takes some processors for others; who runs the tests may have had to tell it.
OPENBLAS = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}

# $0 is the root, $1 the user, the rest the program.
ENTER = f"""
set -e
ip link set lo up
ip addr add {ADDRESS}/32 dev lo
mount --bind "$0" "$0"
mount --rbind /dev "$0/dev"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$0/dev/shm"
mount -t proc proc "$0/proc"
mount -o remount,bind,ro "$0"
root=$0 user=$1
shift
exec chroot --userspec="$user:$user" "$root" "$@"
"""


def run(*command, **options):
    """Runs a program to its end; its output is returned, and is part of the error if it failed."""
    done = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}")
    return done.stdout


def megabytes(path):
    """The size of all files under `path`, in 10^6 bytes."""
    return int(run("du", "--summarize", "--bytes", path).split()[0]) / 1e6


def debian_root():
    """Debian 12 with the packages that no system can be without, as a folder; made once."""
    root = CACHE / "bookworm"
    if not root.exists():
        partial = CACHE / "bookworm.partial"
        run("rm", "-rf", "--one-file-system", partial)
        CACHE.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", "bookworm", partial)
        partial.rename(root)
    return root


class Sandbox:
    """A program that runs in a root."""

    def __init__(self, root, command, environment):
        self._log = tempfile.TemporaryFile()
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **OPENBLAS, **environment}
        namespaces = ["--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        self.started_at = time.monotonic()
        self._unshare = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", ENTER, str(root), str(USER), *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=self._log.fileno(),
            stderr=subprocess.STDOUT,
            env=self.environment,
        )

    def log(self):
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode()

    def pid(self):
        """The program's process, as seen from out here."""
        children = pathlib.Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        return int(children.read_text(encoding="ascii").split()[0])

    def run_inside(self, *command):
        """Runs a program of the root beside the one that is there, as `docker exec` would."""
        entered = ["--all", "--root", "--setuid", str(USER), "--setgid", str(USER)]
        return subprocess.run(
            ["nsenter", "--target", str(self.pid()), *entered, "--", *map(str, command)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    def run_outside(self, *command, environment=None):
        """Runs a program of this system that shares nothing with the sandbox but its network."""
        return run(
            "nsenter", "--target", self.pid(), "--net", "--", *command,
            env={**os.environ, **(environment or {})}, timeout=PATIENCE,
        )  # fmt: skip

    def await_health(self, command):
        """Until `command`, run inside, exits with 0; returns seconds since the program's start."""
        while True:
            if self._unshare.poll() is not None:
                raise AssertionError(f"it exited with {self._unshare.returncode}:\n{self.log()}")
            with contextlib.suppress(IndexError):
                if self.run_inside(*command).returncode == 0:
                    return time.monotonic() - self.started_at
            if time.monotonic() - self.started_at > PATIENCE:
                raise AssertionError(f"it was never healthy:\n{self.log()}")
            time.sleep(0.02)

    def send(self, signal_number):
        os.kill(self.pid(), signal_number)

    def wait(self):
        """Its exit status."""
        return self._unshare.wait(PATIENCE)

    def close(self):
        self._unshare.kill()  # and with it the program
        self._unshare.wait()
        self._log.close()


@contextlib.contextmanager
def sandbox(root, command, environment=None):
    program = Sandbox(root, command, environment or {})
    try:
        yield program
    finally:
        program.close()


def stop(program, signal_number=signal.SIGTERM):
    """Ends it as an engine does, within what `docker stop` grants."""
    asked_at = time.monotonic()
    program.send(signal_number)
    status = program.wait()
    seconds = time.monotonic() - asked_at
    assert status == 0, f"it exited with {status}:\n{program.log()}"
    assert seconds < 10, f"it took {seconds:.1f} s"


class Buildah:
    """buildah with a storage of its own, so that nothing of the machine's is touched."""

    def __init__(self, storage):
        self._storage = storage
        self._command = ["buildah", "--root", storage / "root", "--runroot", storage / "run"]
        self._command += ["--storage-driver", "vfs"]

    def __call__(self, *arguments, **options):
        return run(*self._command, *arguments, **options)

    def inspect(self, image):
        return json.loads(self("inspect", "--type", "image", image))

    def close(self):
        run("rm", "-rf", "--one-file-system", self._storage)


def failure_without_gpu(log, with_cuda):
    """Whether the log says what was found and what is needed, where there is no GPU to be had."""
    if with_cuda:
        wanted = ["no NVIDIA device", "driver 580 or newer", "--gpus all", "--device=cpu"]
    else:
        wanted = ["without CUDA"]
    missing = [text for text in wanted if text not in log]
    assert not missing, f"nothing of {missing} in:\n{log}"
