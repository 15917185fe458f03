#include "server/bench/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace gemm::bench {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "rpc_floor: %s\n", what);
  std::exit(1);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) Fail("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<std::string> words = {"rpc_floor", "--child"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) {
    Fail("cannot start a child process");
  }
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_child_ = fdopen(in[1], "w");
  from_child_ = fdopen(out[0], "r");
}

ChildProcess::~ChildProcess() {
  std::fclose(to_child_);
  std::fclose(from_child_);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::WriteLine(const std::string& line) {
  if (std::fprintf(to_child_, "%s\n", line.c_str()) < 0 || std::fflush(to_child_) != 0) {
    Fail("a child process ended");
  }
}

std::string ChildProcess::ReadLine() {
  char* line = nullptr;
  size_t capacity = 0;
  const ssize_t length = getline(&line, &capacity, from_child_);
  if (length <= 0) Fail("a child process ended");
  std::string text(line, length - 1);
  std::free(line);
  return text;
}

}  // namespace gemm::bench
