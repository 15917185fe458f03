#include "proto/tune_process.h"

#include <malloc.h>
#include <sys/wait.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace gemm {
namespace {

// An Abseil that still kept its graph of locks would end the process here.
TEST(TuneProcessTest, LocksAreTakenWithoutAGraph) {
  TuneProcess();
  absl::Mutex a;
  absl::Mutex b;
  {
    const absl::MutexLock first(&a);
    const absl::MutexLock second(&b);
  }
  const absl::MutexLock first(&b);
  const absl::MutexLock second(&a);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // which have allocators of their own

// How many of glibc's arenas there are once twelve threads at a time have had memory.
int ArenasOfManyThreads() {
  constexpr int kThreads = 12;
  std::barrier all_have_some(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const std::string some(1000, 'x');
      all_have_some.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();

  char* text = nullptr;
  size_t size = 0;
  FILE* const report = open_memstream(&text, &size);
  malloc_info(0, report);
  fclose(report);
  constexpr std::string_view kArena = "<heap nr=";
  const std::string_view xml(text, size);
  int arenas = 0;
  for (size_t at = xml.find(kArena); at != xml.npos; at = xml.find(kArena, at + 1)) ++arenas;
  free(text);
  return arenas;
}

// In processes of their own, since arenas stay.
TEST(TuneServerProcessDeathTest, ManyThreadsShareFourArenas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        TuneServerProcess();
        std::_Exit(ArenasOfManyThreads());
      },
      testing::ExitedWithCode(4), "");
}

TEST(TuneServerProcessDeathTest, TheEnvironmentHasItsWay) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("MALLOC_ARENA_MAX", "64", /*overwrite=*/1);  // too late for glibc itself
        TuneServerProcess();
        std::_Exit(ArenasOfManyThreads());
      },
      [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) > 4; }, "");
}

#endif

}  // namespace
}  // namespace gemm
