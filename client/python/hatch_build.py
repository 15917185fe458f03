"""Build hook: puts the contract, compiled by protoc, into the wheel and its sources into the sdist.

The contract lives in the repository's proto/, and in proto/ of an unpacked sdist. What the package
holds of it is `gemmd/contract.binpb`, a FileDescriptorSet, rather than generated modules: it works
with every protobuf runtime and shares no names with stubs that a program generated for itself.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOS = [
    "gemm/v1/gemm.proto",
    "gemm/v1/error_details.proto",
    "grpc/health/v1/health.proto",
]
CONTRACT = "gemmd/contract.binpb"


class ContractHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        unpacked_sdist = (Path(self.root) / "proto").is_dir()
        top = Path(self.root) if unpacked_sdist else Path(self.root).parents[1]
        included = build_data["force_include"]
        if self.target_name == "sdist":
            for name in PROTOS:
                included[str(top / "proto" / name)] = f"proto/{name}"
            included[str(top / "LICENSE")] = "LICENSE"
            return
        self._scratch = tempfile.mkdtemp(prefix="gemmd-contract-")
        compiled = Path(self._scratch) / "contract.binpb"
        compile_contract(top / "proto", compiled)
        if version == "editable":  # Python reads the sources themselves.
            moved = Path(self.root) / "src" / f"{CONTRACT}.{os.getpid()}"
            shutil.copyfile(compiled, moved)
            moved.replace(Path(self.root) / "src" / CONTRACT)
        else:
            included[str(compiled)] = CONTRACT
            if not unpacked_sdist:  # There hatchling finds it beside pyproject.toml.
                included[str(top / "LICENSE")] = "gemmd/LICENSE"
        build_data["pure_python"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name != "sdist":
            shutil.rmtree(self._scratch, ignore_errors=True)


def compile_contract(protos: Path, target: Path) -> None:
    from grpc_tools import protoc  # Needed for wheels only.

    well_known = importlib.resources.files("grpc_tools") / "_proto"
    arguments = ["protoc", f"-I{protos}", f"-I{well_known}", "--include_imports"]
    arguments += [f"--descriptor_set_out={target}", *PROTOS]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc failed on the contract in {protos}")
