#include "server/engine/cuda_batch.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace gemm {

CudaBatch::CudaBatch(std::vector<CudaTask> tasks, const DeviceInfo& device, CudaRoad road)
    : road_(road), ordinal_(device.ordinal), tasks_(std::move(tasks)) {
  MakeLaunches(device);
  PlaceBytes();
}

void CudaBatch::MakeLaunches(const DeviceInfo& device) {
  // The launches in the order of their first tasks.
  struct Group {
    KernelRef kernel;
    std::vector<size_t> members;
  };
  std::vector<Group> groups;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const KernelRef& kernel = tasks_[i].choice.grouped;
    const auto same = std::find_if(groups.begin(), groups.end(), [&kernel](const Group& group) {
      return kernel.family != nullptr && group.kernel.family == kernel.family &&
             group.kernel.config == kernel.config;
    });
    if (same != groups.end()) {
      same->members.push_back(i);
    } else {
      groups.push_back({kernel, {i}});
    }
  }
  for (Group& group : groups) {
    if (group.members.size() == 1) group.kernel = tasks_[group.members.front()].choice.alone;
  }

  std::vector<CudaTask> sorted;
  sorted.reserve(tasks_.size());
  order_.resize(tasks_.size());
  for (const Group& group : groups) {
    for (const size_t member : group.members) {
      order_[member] = sorted.size();
      sorted.push_back(tasks_[member]);
    }
  }
  tasks_ = std::move(sorted);
  problems_.reserve(tasks_.size());
  for (const CudaTask& task : tasks_) problems_.push_back(task.product->problem);

  launches_.reserve(groups.size());
  size_t first = 0;
  for (const Group& group : groups) {
    const size_t count = group.members.size();
    CudaLaunch launch{.kernel = group.kernel,
                      .plan = {},
                      .tasks = std::span(tasks_).subspan(first, count),
                      .first = first};
    launch.plan = group.kernel.family->MakePlan(std::span(problems_).subspan(first, count), device,
                                                group.kernel.config);
    launches_.push_back(launch);
    first += count;
  }
  // Those that need a table on the device first, so that one copy brings all tables.
  std::stable_partition(launches_.begin(), launches_.end(),
                        [](const CudaLaunch& launch) { return launch.plan.device_args_bytes > 0; });
  for (CudaLaunch& launch : launches_) {
    launch.args_offset = args_bytes_;
    if (launch.plan.device_args_bytes > 0) {
      table_bytes_ = launch.args_offset + launch.plan.device_args_bytes;
    }
    args_bytes_ += AlignedSize(launch.plan.args_bytes);
  }
}

void CudaBatch::PlaceBytes() {
  const auto place = [this](size_t bytes) {
    const size_t offset = device_bytes_;
    device_bytes_ += AlignedSize(bytes);
    return offset;
  };
  size_t workspace_bytes = 0;
  size_t result_bytes = 0;
  for (const CudaTask& task : tasks_) result_bytes += task.product->output_bytes;
  const bool may_be_direct = road_ == CudaRoad::kShort && result_bytes <= kMostDirectBytes;
  places_.resize(tasks_.size());
  for (const CudaLaunch& launch : launches_) {
    workspace_bytes = std::max(workspace_bytes, launch.plan.workspace_bytes);
    for (size_t i = launch.first; i < launch.first + launch.tasks.size(); ++i) {
      places_[i].direct = tasks_[i].product->result != nullptr ||
                          (may_be_direct && launch.plan.workspace_bytes == 0);
    }
  }
  place(workspace_bytes);
  tables_offset_ = place(table_bytes_);

  // The tasks of a job follow each other: it is brought in with the first.
  const CudaTask* before = nullptr;
  Place job_place;
  bool job_has_output = false;
  for (const size_t at : order_) {
    const CudaTask& task = tasks_[at];
    Place& mine = places_[at];
    if (before == nullptr || before->job != task.job) {
      const HostBuffer& input = task.job->input;
      job_place.input_offset = place(input.size_bytes());
      job_has_output = false;
      if (!input.empty()) {
        copies_in_.push_back({input.data(), job_place.input_offset, input.size_bytes()});
      }
    }
    if (!mine.direct && !job_has_output) {
      job_place.output_offset = place(task.job->output.size_bytes());
      job_has_output = true;
    }
    mine.input_offset = job_place.input_offset;
    mine.output_offset = job_place.output_offset;
    before = &task;
    const InputSpan* const spans[] = {&task.product->a, &task.product->b, &task.product->c};
    for (size_t i = 0; i < std::size(spans); ++i) {
      if (!IsElsewhere(*spans[i])) continue;
      mine.over_offsets[i] = place(spans[i]->size_bytes);
      copies_over_.push_back({spans[i]->matrix->data() + spans[i]->offset_bytes,
                              spans[i]->matrix->device(), mine.over_offsets[i],
                              spans[i]->size_bytes});
    }
    if (mine.direct) continue;

    // Results that lie side by side leave together; others of the job may be there already.
    const JobProduct& product = *task.product;
    std::byte* const host = task.job->output.data() + product.output_offset_bytes;
    if (!copies_out_.empty()) {
      CudaCopy& last = copies_out_.back();
      if (last.host + AlignedSize(last.bytes) == host &&
          last.device_offset + AlignedSize(last.bytes) ==
              mine.output_offset + product.output_offset_bytes) {
        last.bytes = AlignedSize(last.bytes) + product.output_bytes;
        continue;
      }
    }
    copies_out_.push_back(
        {host, mine.output_offset + product.output_offset_bytes, product.output_bytes});
  }
}

Operands CudaBatch::OperandsOf(size_t task, std::byte* memory) const {
  const Job& job = *tasks_[task].job;
  const JobProduct& product = *tasks_[task].product;
  const Place& place = places_[task];
  const auto operand = [&](const InputSpan& span, size_t index) -> const void* {
    if (span.size_bytes == 0) return nullptr;
    if (IsElsewhere(span)) return memory + place.over_offsets[index];
    const std::byte* const base =
        span.matrix != nullptr ? span.matrix->data() : memory + place.input_offset;
    return base + span.offset_bytes;
  };
  std::byte* result = nullptr;
  if (product.result != nullptr) {
    result = product.result->data();
  } else {
    result = (place.direct ? job.output.data() : memory + place.output_offset) +
             product.output_offset_bytes;
  }
  return {operand(product.a, 0), operand(product.b, 1), operand(product.c, 2), result};
}

void CudaBatch::Encode(std::byte* memory, std::byte* args) const {
  std::vector<Operands> operands(tasks_.size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = OperandsOf(i, memory);
  for (const CudaLaunch& launch : launches_) {
    const size_t count = launch.tasks.size();
    launch.kernel.family->Encode(launch.plan, std::span(problems_).subspan(launch.first, count),
                                 std::span(operands).subspan(launch.first, count),
                                 args + launch.args_offset);
  }
}

}  // namespace gemm
