// The bounded line of jobs in front of the devices: fair between callers, with small jobs apart
// from large ones.

#ifndef GEMMD_SERVER_ENGINE_JOB_QUEUE_H_
#define GEMMD_SERVER_ENGINE_JOB_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/engine/device.h"
#include "server/engine/job.h"

namespace gemm {

// Thread-safe, any number of producers and consumers.
//
// Fairness is start-time fair queueing: a job's turn is where its caller's last one ended, or now
// if the caller was idle, in units of estimated device time. So each caller with work waiting gets
// an equal share of the device however much it sends, and one caller's jobs stay in order. When a
// lane for anything finds nothing to do, all start anew.
//
// A job that is bound to a device waits for a lane of it; jobs for other devices pass it by.
class JobQueue {
 public:
  struct Limits {
    uint64_t problems = 4096;            // products that wait
    uint64_t bytes = uint64_t{1} << 30;  // host memory that waiting jobs hold
    double flops = 2e15;                 // work that waits
    // A job estimated to take no longer is small: it goes to small lanes and shares batches.
    double small_job_seconds = 100e-6;
    // A batch of small jobs ends when it is estimated to take longer.
    double batch_seconds = 300e-6;
  };

  explicit JobQueue(const Limits& limits) : limits_(limits) {}

  // Takes the job, whose cost is known, when it returns OK and leaves it alone otherwise:
  // UNAVAILABLE, QUEUE_FULL or DRAINING; INTERNAL, DEVICE_LOST when it is bound to a device that is
  // lost. A job larger than a limit is taken when nothing else waits.
  absl::Status Push(std::unique_ptr<Job>& job);

  // Whether the job is small and nothing small waits, so that it would take no turn of another's if
  // it did not stand in line.
  bool MayPass(const Job& job) const;

  // Blocks until there is work for such a lane of such a device: small jobs up to the batch limit,
  // or one large job (for kAny alone). Never waits for more to come. Empty once the queue is closed
  // and holds nothing for the lane, or `leaves` says that the lane takes nothing any more: it is
  // asked with the queue's lock held, when the lane comes, after each Push that wakes it and after
  // WakeAll.
  std::vector<std::unique_ptr<Job>> PopBatch(
      LaneKind lane, int device = 0, absl::FunctionRef<bool()> leaves = [] { return false; });
  // Has every lane that waits ask again whether it leaves.
  void WakeAll();

  // Takes a job out of the line; null if it is not there any more. What is still to come of its
  // time is not charged to its caller: the caller's later jobs move up.
  std::unique_ptr<Job> Remove(const CancelToken* cancel);

  // Refuses jobs that are bound to this device from now on; returns those that wait.
  std::vector<std::unique_ptr<Job>> Lose(int device);

  // Refuses what comes after; what waits is still handed out.
  void Close();

  uint64_t problems() const;
  uint64_t bytes() const;
  double flops() const;

 private:
  // Jobs by turn; equal turns stay in the order in which they came.
  using Line = std::multimap<double, std::unique_ptr<Job>>;

  bool IsSmall(const Job& job) const { return job.cost.seconds <= limits_.small_job_seconds; }

  // Each requires mutex_.
  absl::Status CheckRoom(const JobCost& cost) const;
  Line& LineOf(const Job& job);
  static Line::iterator FirstFor(Line& line, int device);
  std::unique_ptr<Job> Take(Line& line, Line::iterator position);
  // A caller's jobs with a turn beyond `after`, and those that it has yet to send, come so much
  // earlier.
  void MoveUp(const std::string& caller, double after, double seconds);

  const Limits limits_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable small_lane_wanted_;
  std::condition_variable any_lane_wanted_;
  int small_lanes_waiting_ = 0;
  Line small_;
  Line large_;
  double now_ = 0;                                    // the latest turn that has come
  std::unordered_map<std::string, double> last_end_;  // by caller, for those beyond now_
  JobCost waiting_;                                   // of all that wait
  std::set<int> lost_;                                // devices
  bool closed_ = false;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_JOB_QUEUE_H_
