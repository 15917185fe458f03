"""The distribution: wheel and sdist, installed as a user would, and its examples."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import harness
import pytest

import gemmd

SOURCE = harness.REPOSITORY / "client" / "python"
EXAMPLES = SOURCE / "examples"


def run(*command, **options):
    result = harness.run(command, timeout=4 * harness.PATIENCE, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The sdist, the wheel made from it, and the wheel made from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    run(*build, folder, SOURCE)
    run(*build, folder / "direct", "--wheel", SOURCE)
    (sdist,) = folder.glob("gemmd_client-*.tar.gz")
    (wheel,) = folder.glob("gemmd_client-*-py3-none-any.whl")
    (direct,) = folder.glob("direct/*.whl")
    return sdist, wheel, direct


def test_contents(archives):
    sdist, wheel, direct = archives
    names = []
    for path in (wheel, direct):
        listed = set(zipfile.ZipFile(path).namelist())
        licence = {name for name in listed if name.endswith("/LICENSE")}
        assert len(licence) == 1
        names.append(listed - licence)
    assert names[0] == names[1]
    assert {"gemmd/contract.binpb", "gemmd/py.typed"} <= names[0]
    sources = {path.name for path in (SOURCE / "src" / "gemmd").glob("*.py")}
    assert {f"gemmd/{name}" for name in sources} <= names[0]
    packed = {name.split("/", 1)[1] for name in tarfile.open(sdist).getnames()}
    assert {"proto/gemm/v1/gemm.proto", "LICENSE", "README.md", "examples/quick.py"} <= packed
    assert not any(name.endswith((".pyc", "binpb")) for name in packed)


def test_version_is_that_of_the_project():
    cmake = (harness.REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    assert gemmd.__version__ == re.search(r"project\(gemmd VERSION (\S+)", cmake)[1]


def test_a_clean_environment(archives, server, tmp_path):
    """As a user installs it, with what the wheel says it needs and no more."""
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", archives[1])
    installed = run(python, "-m", "pip", "freeze")
    assert "gemmd-client" in installed and "grpcio-tools" not in installed
    environment = harness.clean_environment(GEMMD_ADDRESS=server.address)
    output = run(python, EXAMPLES / "quick.py", environment=environment)
    assert output.count("differs from NumPy by") == 3


def example_environment():
    package = pathlib.Path(gemmd.__file__).resolve().parents[1]
    return harness.clean_environment(PYTHONPATH=str(package))


def test_examples(server):
    assert "200 of 200 queries" in run(
        sys.executable, EXAMPLES / "nearest.py", server.address, environment=example_environment()
    )
    output = run(
        sys.executable,
        EXAMPLES / "phases.py",
        f"--address={server.address}",
        "--size=300",
        "--calls=3",
        environment=example_environment(),
    )
    for words in ("compute", "whole call", "NumPy here"):
        assert words in output
    output = run(
        sys.executable, EXAMPLES / "resident.py", server.address, environment=example_environment()
    )
    assert "row by row the same: True" in output
    output = run(
        sys.executable,
        EXAMPLES / "break_even.py",
        f"--address={server.address}",
        "--sizes=16,200,600",
        "--batch=20",
        "--seconds=0.01",
        "--link=a wire",
        environment=example_environment(),
    )
    assert "link: a wire" in output and "faster than NumPy here" in output
    for words in ("NumPy", "inline", "resident", "kept", "batch"):
        assert words in output
    output = run(
        sys.executable,
        EXAMPLES / "transfer_floor.py",
        f"--address={server.address}",
        "--mib=2",
        "--seconds=0.01",
        environment=example_environment(),
    )
    for words in ("2 MiB each way", "echo", "bytes", "client"):
        assert words in output


def test_examples_say_what_is_wrong():
    for example in sorted(EXAMPLES.glob("*.py")):
        by_flag = example.name in ("phases.py", "break_even.py", "transfer_floor.py")
        address = ["--address=127.0.0.1:1" if by_flag else "127.0.0.1:1"]
        result = harness.run([sys.executable, example, *address], environment=example_environment())
        assert result.returncode == 1
        assert "is gemmd running there" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed")
def test_types():
    subprocess.run(
        [sys.executable, "-m", "mypy", f"--cache-dir={os.devnull}"], cwd=SOURCE, check=True
    )
