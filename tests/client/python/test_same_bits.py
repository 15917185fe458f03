"""One server, one answer: the Python client, gemmctl (the C++ client) and a stock stub."""

import subprocess

import harness
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (61, 47, 333), (200, 3, 1000)])
def test_every_client_gets_the_same_bits(server, client, tmp_path, dtype, m, n, k):
    random = np.random.default_rng(m)
    a = random.standard_normal((m, k)).astype(dtype)
    b = random.standard_normal((k, n)).astype(dtype)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)

    from_python = client.matmul(a, b)
    from_stub = server.multiply(harness.product_request(a, b)).payloads[0]
    subprocess.run(
        [harness.BIN / "gemmctl", "--address", server.address, "multiply", "a.npy", "b.npy"]
        + ["-o", "d.npy"],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    from_gemmctl = np.load(tmp_path / "d.npy")

    assert from_python.tobytes() == from_stub == from_gemmctl.tobytes()
