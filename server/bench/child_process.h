// This program once more, in a process of its own, to talk to line by line.

#ifndef GEMMD_SERVER_BENCH_CHILD_PROCESS_H_
#define GEMMD_SERVER_BENCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace gemm::bench {

// Ends this process when anything about the child goes wrong.
class ChildProcess {
 public:
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();  // the child's standard input ends; waits for the child to end

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void WriteLine(const std::string& line);
  std::string ReadLine();

 private:
  pid_t pid_ = 0;
  FILE* to_child_ = nullptr;
  FILE* from_child_ = nullptr;
};

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_CHILD_PROCESS_H_
