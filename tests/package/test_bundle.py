"""The bundle, unpacked in a Debian that has nothing but what every Debian has."""

import re

import numpy as np
from conftest import BUILD
from sandbox import REPOSITORY, failure_without_gpu, megabytes, run, sandbox, stop


def test_needs_nothing_but_glibc(bundle):
    files = [*(bundle.outside / "bin").iterdir(), *(bundle.outside / "lib").iterdir()]
    inside = ["/" / file.relative_to(bundle.root) for file in files]
    resolved = run("chroot", bundle.root, "ldd", *inside)
    assert "not found" not in resolved
    glibc = {
        path.split("/")[-1] for path in run("chroot", bundle.root, "dpkg", "-L", "libc6").split()
    }
    used = set()
    for path in re.findall(r"^\t\S+ => (.+) \(0x[0-9a-f]+\)$", resolved, re.MULTILINE):
        if path.split("/")[-1] in glibc:
            assert not path.startswith(str(bundle.path)), path
        else:
            assert path.startswith(str(bundle.path)), path
            used.add(path.split("/")[-1])
    assert used == {file.name for file in (bundle.outside / "lib").iterdir()}, (
        "and all of it is used"
    )


def test_serves_multiplies_and_ends(bundle, matrices, multiply_from_python):
    folder, product = matrices
    work = bundle.root / "srv"
    for name in ("A.npy", "B.npy"):
        (work / name).write_bytes((folder / name).read_bytes())
    gemmctl = bundle.path / "bin" / "gemmctl"
    with sandbox(bundle.root, [bundle.path / "bin" / "gemmd", "--device=cpu"]) as server:
        seconds = server.await_health([gemmctl, "health"])
        packed, unpacked = bundle.archive.stat().st_size / 1e6, megabytes(bundle.outside)
        print(f"\nbundle: {packed:.1f} MB, unpacked {unpacked:.1f} MB")
        print(f"SERVING {seconds:.2f} s after the start")
        # /dev/shm is all that a read-only root leaves to write to.
        done = server.run_inside(
            gemmctl, "multiply", "/srv/A.npy", "/srv/B.npy", "-o", f"/dev/shm/{folder.name}.npy"
        )
        assert done.returncode == 0, done.stdout
        server.run_outside(
            bundle.outside / "bin" / "gemmctl", "multiply",
            folder / "A.npy", folder / "B.npy", "-o", folder / "D.npy",
        )  # fmt: skip
        np.testing.assert_array_equal(np.load(folder / "D.npy"), product)
        multiply_from_python(server.run_outside, "127.0.0.1:50051")
        stop(server)


def test_a_gpu_that_is_not_there(bundle):
    with sandbox(bundle.root, [bundle.path / "bin" / "gemmd", "--device=cuda"]) as server:
        assert server.wait() == 1
        failure_without_gpu(server.log(), bundle.with_cuda())


def test_licences(bundle):
    folder = bundle.outside / "licenses"
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    for name in ("libgrpc29", "libopenblas0-pthread", "libstdc++6", "libssl3", "libcli11-dev"):
        assert "copyright" in texts[name].lower(), name
    referred = {
        name
        for text in texts.values()
        for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)
    }
    assert {f"common-{name}" for name in referred} <= set(texts)
    assert "Apache License" in (bundle.outside / "LICENSE").read_text(encoding="utf-8")


def test_same_programs_same_bytes(bundle, tmp_path):
    again = tmp_path / "again.tar.gz"
    run(REPOSITORY / "deploy" / "package.sh", "--build-dir", BUILD, "-o", again)
    assert again.read_bytes() == bundle.archive.read_bytes()
