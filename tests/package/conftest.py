"""Fixtures: the bundle unpacked in a bare Debian, the image built from the Dockerfile, and a Python
that has our wheel."""

import os
import pathlib
import shutil
import sys

import numpy as np
import pytest
from sandbox import CACHE, REPOSITORY, Buildah, debian_root, run

# The programs that the bundle is made from.
BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", REPOSITORY / "build" / "dev")).resolve()
CUDA = pathlib.Path("/usr/local/cuda")


class Bundle:
    def __init__(self, archive, root, path):
        self.archive = archive
        self.root = root  # a Debian, in which
        self.path = path  # it is unpacked here
        self.outside = root / path.relative_to("/")

    def with_cuda(self):
        return (self.outside / "licenses" / "cuda-runtime").exists()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    archive = folder / "gemmd.tar.gz"
    print(run(REPOSITORY / "deploy" / "package.sh", "--build-dir", BUILD, "-o", archive))
    root = folder / "root"
    run("cp", "--archive", debian_root(), root)
    place = "opt/no such place"  # nobody has ever built for this one
    (root / place).mkdir()
    run("tar", "--extract", "--file", archive, "--directory", root / place)
    (name,) = os.listdir(root / place)
    yield Bundle(archive, root, pathlib.Path("/") / place / name)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def multiply_from_python(bundle, tmp_path_factory):
    """Runs a program that uses the Python client of the bundle, as installed by pip, and checks a
    product: multiply_from_python(run, address), with `run` as Sandbox.run_outside."""
    site = tmp_path_factory.mktemp("site")
    wheels = list((bundle.outside / "python").glob("*.whl"))
    assert len(wheels) == 1
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--no-deps", "--target", site, wheels[0])
    program = (
        "import sys, numpy as np, gemmd\n"
        "rng = np.random.default_rng(1)\n"
        "a = rng.integers(-4, 5, (300, 400)).astype('f4')\n"
        "b = rng.integers(-4, 5, (400, 200)).astype('f4')\n"
        "with gemmd.Client(sys.argv[1]) as client:\n"
        "    np.testing.assert_array_equal(client.matmul(a, b), a @ b)\n"
    )

    def multiply(run_program, address):
        run_program(sys.executable, "-c", program, address, environment={"PYTHONPATH": str(site)})

    return multiply


@pytest.fixture(scope="session")
def matrices(tmp_path_factory):
    """A.npy, B.npy and their product, exact in float32."""
    folder = tmp_path_factory.mktemp("matrices")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype("f4") for shape in ((70, 50), (50, 30)))
    np.save(folder / "A.npy", a)
    np.save(folder / "B.npy", b)
    return folder, a @ b


class Image:
    name = "localhost/gemmd"
    base = "localhost/bookworm"

    def __init__(self, buildah, with_cuda):
        self.buildah = buildah
        self.with_cuda = with_cuda
        self.config = buildah.inspect(self.name)["Docker"]["config"]
        container = buildah("from", self.name).split()[-1]
        self.root = pathlib.Path(buildah("mount", container).split()[-1])

    def environment(self, **changes):
        return dict(line.split("=", 1) for line in self.config["Env"]) | changes


@pytest.fixture(scope="session")
def image():
    """Built from the real Dockerfile; with CUDA if this machine has the toolkit, which is mounted
    into the build, since there is no image of it here."""
    buildah = Buildah(CACHE / "storage")
    buildah.close()  # what a run that was killed may have left
    ccache = CACHE / "ccache"
    ccache.mkdir(parents=True, exist_ok=True)
    try:
        base = buildah("from", "--name", "bookworm", "scratch").split()[-1]
        buildah("add", "--quiet", base, debian_root(), "/")
        buildah("commit", "--quiet", "--rm", base, Image.base)
        arguments = ["--build-arg", f"BUILD_IMAGE={Image.base}"]
        arguments += ["--build-arg", f"RUNTIME_IMAGE={Image.base}"]
        with_cuda = (CUDA / "bin" / "nvcc").exists()
        if with_cuda:
            arguments += ["--volume", f"{CUDA.resolve()}:{CUDA}:ro"]
        else:
            arguments += ["--build-arg", "GEMMD_CUDA=OFF"]
        # buildah's cache mounts lie in the folder for temporary files.
        buildah(
            "bud", "--isolation", "chroot", "--format", "docker", "--layers=false", "--pull-never",
            *arguments, "--tag", Image.name, REPOSITORY,
            env={**os.environ, "TMPDIR": str(ccache)},
        )  # fmt: skip
        yield Image(buildah, with_cuda)
    finally:
        buildah.close()
