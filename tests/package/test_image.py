"""The container image, built from the real Dockerfile and run as an engine would run it."""

import json

from sandbox import ADDRESS, failure_without_gpu, megabytes, sandbox, stop

LIMIT = 150  # MB over the base


def test_config(image):
    config = image.config
    assert config["Entrypoint"] == ["/opt/gemmd/bin/gemmd"]
    assert not config.get("Cmd")
    assert config["User"].split(":")[0].isdigit() and config["User"] != "0"
    assert config["StopSignal"] == "SIGTERM"
    assert set(config["ExposedPorts"]) == {"50051/tcp", "9464/tcp"}
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    environment = image.environment()
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


def test_size(image, tmp_path):
    image.buildah("push", "--quiet", "--format", "oci", image.name, f"oci:{tmp_path}:gemmd")
    (index,) = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))["manifests"]
    blobs = tmp_path / "blobs" / "sha256"
    manifest = json.loads((blobs / index["digest"].split(":")[1]).read_text(encoding="utf-8"))
    layers = ", ".join(f"{layer['size'] / 1e6:.1f}" for layer in manifest["layers"])
    size = megabytes(image.root / "opt" / "gemmd")
    print(f"\nimage: {size:.1f} MB over its base; compressed layers, base first, in MB: {layers}")
    assert size < LIMIT


def test_serves_multiplies_and_ends(image, multiply_from_python):
    # Nothing but what `docker run --read-only -e GEMMD_DEVICE=cpu` would change.
    environment = image.environment(GEMMD_DEVICE="cpu")
    health = image.config["Healthcheck"]["Test"][1:]
    with sandbox(image.root, image.config["Entrypoint"], environment) as server:
        seconds = server.await_health(health)
        print(f"\nimage: SERVING {seconds:.2f} s after the start")
        assert "warning" in server.log() and "--insecure" in server.log()
        multiply_from_python(server.run_outside, f"{ADDRESS}:50051")
        page = server.run_outside(
            "curl", "-fsS", "--noproxy", "*", f"http://{ADDRESS}:9464/metrics"
        )
        assert 'grpc_code="OK"' in page
        stop(server)


def test_a_forgotten_gpus_flag(image):
    with sandbox(image.root, image.config["Entrypoint"], image.environment()) as server:
        assert server.wait() == 1
        print(f"\nimage without --gpus: {server.log().splitlines()[-1]}")
        failure_without_gpu(server.log(), image.with_cuda)
