// A whole gemmd in this process, on the CPU. Apart, since the server's own names for things are the
// client's too.

#ifndef GEMMD_TESTS_CLIENT_LOCAL_SERVER_H_
#define GEMMD_TESTS_CLIENT_LOCAL_SERVER_H_

#include <memory>
#include <string>

namespace gemm::testing {

class LocalServer {
 public:
  LocalServer();  // ends the process when the server does not start
  ~LocalServer();

  std::string address() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_LOCAL_SERVER_H_
