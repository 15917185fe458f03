// Ctrl-C while something is measured: what has been measured is still told.

#ifndef GEMMD_CLIENT_CLI_PERF_INTERRUPT_H_
#define GEMMD_CLIENT_CLI_PERF_INTERRUPT_H_

namespace gemm::cli {

// From now on the first SIGINT, SIGTERM or SIGHUP is only noted; a second one ends the process.
void NoteSignals();

bool Interrupted();

// Ends the process as the noted signal would have, if there was one: the shell sees what it was.
void EndIfInterrupted();

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_INTERRUPT_H_
