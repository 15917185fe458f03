// multiply_example ADDRESS: products on a gemmd server, one waited for, one called back, and one
// with a matrix that stays there.

#include <cstdlib>
#include <future>
#include <iostream>
#include <utility>
#include <vector>

#include "gemmd/client.h"

namespace {

int Fail(const absl::Status& status) {
  std::cerr << status << "\n";
  if (const auto detail = gemm::GetErrorDetail(status)) {
    std::cerr << "reason " << detail->reason << ", field " << detail->field << "\n";
  }
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::cout << "usage: multiply_example HOST:PORT\n";
    return argc == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  const absl::StatusOr<gemm::Client> client = gemm::Client::Connect({.address = argv[1]});
  if (!client.ok()) return Fail(client.status());

  const int64_t m = 300, n = 200, k = 400;
  const std::vector<float> a(m * k, 1), b(k * n, 2);
  std::vector<float> d(m * n);
  const absl::StatusOr<gemm::MultiplyReport> report = client->Multiply<float>(
      {.m = m, .n = n, .k = k, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}});
  if (!report.ok()) return Fail(report.status());
  std::cout << "d[0] is " << d[0] << ", by " << report->kernel << " in " << report->wall << "\n";

  // d times its own transpose, which is sent once. What the call uses stays until the callback.
  std::vector<float> gram(m * m);
  std::promise<absl::Status> done;
  client->MultiplyAsync<float>({.m = m,
                                .n = m,
                                .k = n,
                                .a = {.data = d},
                                .b = {.data = d, .transposed = true},
                                .d = {.data = gram}},
                               [&done](const absl::StatusOr<gemm::MultiplyReport>& result) {
                                 done.set_value(result.status());
                               });
  if (const absl::Status status = done.get_future().get(); !status.ok()) return Fail(status);
  std::cout << "gram[0] is " << gram[0] << "\n";

  // b is sent once, and used by its name until it is deleted, or nobody has used it for long.
  const absl::StatusOr<gemm::MatrixInfo> kept =
      client->Put<float>({.rows = k, .columns = n, .data = b});
  if (!kept.ok()) return Fail(kept.status());
  const absl::StatusOr<gemm::MultiplyReport> by_name =
      client->Multiply<float>({.m = m,
                               .n = n,
                               .k = k,
                               .a = {.data = a},
                               .b = {.matrix = {.name = kept->name}},
                               .d = {.data = d}});
  if (!by_name.ok()) return Fail(by_name.status());
  std::cout << "d[0] is " << d[0] << ", of " << by_name->request_bytes << " bytes sent\n";
  if (const absl::Status status = client->DeleteMatrix(kept->name); !status.ok()) {
    return Fail(status);
  }
  return d[0] == 800 && gram[0] == 800.0f * 800 * n ? EXIT_SUCCESS : EXIT_FAILURE;
}
