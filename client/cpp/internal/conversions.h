// Between the protocol's messages and this library's plain values.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_CONVERSIONS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_CONVERSIONS_H_

#include "gemm/v1/gemm.pb.h"
#include "gemmd/matrix.h"
#include "gemmd/multiply.h"
#include "gemmd/server_info.h"
#include "gemmd/types.h"

namespace gemm::client {

v1::DataType ToProto(ElementType type);
v1::Precision ToProto(Precision precision);
v1::ExplainRequest ToProto(const ExplainArgs& args);
v1::ResultMatrix ToProto(const ResultMatrix& result);
v1::CreateMatrixRequest ToProto(const CreateMatrixArgs& args);

// The part of a report that comes from the server.
MultiplyReport FromProto(const v1::ExecutionReport& report);
Explanation FromProto(const v1::ExplainReply& reply);
ServerInfo FromProto(const v1::GetServerInfoReply& reply);
MatrixInfo FromProto(const v1::Matrix& matrix);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_CONVERSIONS_H_
