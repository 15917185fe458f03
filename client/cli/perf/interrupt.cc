#include "client/cli/perf/interrupt.h"

#include <signal.h>

#include <cstdio>
#include <initializer_list>

namespace gemm::cli {
namespace {

volatile sig_atomic_t noted = 0;

}  // namespace

void NoteSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { noted = signal; };
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

bool Interrupted() { return noted != 0; }

void EndIfInterrupted() {
  if (noted == 0) return;
  std::fflush(stdout);
  raise(noted);  // whose default action is back
}

}  // namespace gemm::cli
