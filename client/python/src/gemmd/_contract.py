"""The messages of the contract, proto/gemm/v1/gemm.proto.

They live in a descriptor pool of their own, so they never clash with stubs that the program
generated from another version of the contract.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _load() -> descriptor_pool.DescriptorPool:
    compiled = resources.files("gemmd") / "contract.binpb"
    if not compiled.is_file():
        raise ImportError(
            "gemmd/contract.binpb is missing: it is made when the package is built; install it "
            "with `pip install client/python`, or `pip install -e client/python` to work on it"
        )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_pool = _load()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))


def _enum(name: str) -> dict[str, int]:
    values = _pool.FindEnumTypeByName(name).values
    return {value.name: value.number for value in values}


MultiplyRequest = _message("gemm.v1.MultiplyRequest")
MultiplyReply = _message("gemm.v1.MultiplyReply")
MultiplyBatchRequest = _message("gemm.v1.MultiplyBatchRequest")
MultiplyBatchReply = _message("gemm.v1.MultiplyBatchReply")
Product = _message("gemm.v1.Product")
CreateMatrixRequest = _message("gemm.v1.CreateMatrixRequest")
CreateMatrixReply = _message("gemm.v1.CreateMatrixReply")
WriteRowsRequest = _message("gemm.v1.WriteRowsRequest")
WriteRowsReply = _message("gemm.v1.WriteRowsReply")
ReadRowsRequest = _message("gemm.v1.ReadRowsRequest")
ReadRowsReply = _message("gemm.v1.ReadRowsReply")
GetMatrixRequest = _message("gemm.v1.GetMatrixRequest")
GetMatrixReply = _message("gemm.v1.GetMatrixReply")
ListMatricesRequest = _message("gemm.v1.ListMatricesRequest")
ListMatricesReply = _message("gemm.v1.ListMatricesReply")
DeleteMatrixRequest = _message("gemm.v1.DeleteMatrixRequest")
ExplainRequest = _message("gemm.v1.ExplainRequest")
ExplainReply = _message("gemm.v1.ExplainReply")
GetServerInfoRequest = _message("gemm.v1.GetServerInfoRequest")
GetServerInfoReply = _message("gemm.v1.GetServerInfoReply")
HealthCheckRequest = _message("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _message("grpc.health.v1.HealthCheckResponse")
StatusDetails = _message("gemm.v1.StatusDetails")
ErrorInfo = _message("gemm.v1.ErrorInfo")
RetryInfo = _message("gemm.v1.RetryInfo")
BadRequest = _message("gemm.v1.BadRequest")

DATA_TYPES = _enum("gemm.v1.DataType")  # by name, "DATA_TYPE_F32"
PRECISIONS = _enum("gemm.v1.Precision")  # by name, "PRECISION_STRICT"

MULTIPLY = "/gemm.v1.GemmService/Multiply"
MULTIPLY_BATCH = "/gemm.v1.GemmService/MultiplyBatch"
CREATE_MATRIX = "/gemm.v1.GemmService/CreateMatrix"
WRITE_ROWS = "/gemm.v1.GemmService/WriteRows"
READ_ROWS = "/gemm.v1.GemmService/ReadRows"
GET_MATRIX = "/gemm.v1.GemmService/GetMatrix"
LIST_MATRICES = "/gemm.v1.GemmService/ListMatrices"
DELETE_MATRIX = "/gemm.v1.GemmService/DeleteMatrix"
EXPLAIN = "/gemm.v1.GemmService/Explain"
GET_SERVER_INFO = "/gemm.v1.GemmService/GetServerInfo"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
