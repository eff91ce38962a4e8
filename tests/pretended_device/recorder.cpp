#include "tests/pretended_device/recorder.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace meg::pretended {

int64_t Counts::operations() const {
  return std::accumulate(kernels.begin(), kernels.end(), copies + fills,
                         [](int64_t sum, const auto& kernel) { return sum + kernel.second; });
}

int64_t Counts::nccl_calls() const {
  return std::accumulate(kernels.begin(), kernels.end(), int64_t{0},
                         [](int64_t sum, const auto& kernel) {
                           return sum + (kernel.first.starts_with("nccl") ? kernel.second : 0);
                         });
}

Counts take_counts() { return Recorder::instance().take(); }

Recorder& Recorder::instance() {
  static auto* const recorder = new Recorder;  // LibTorch calls until the process has ended
  return *recorder;
}

bool Recorder::queue(const void* stream) {
  if (recording_.contains(stream)) return false;
  last_of_[stream] = ++last_;
  return true;
}

void Recorder::add_kernel(const void* stream, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (queue(stream)) ++counts_.kernels[std::string(name)];
}

void Recorder::add_copy(const void* stream) {
  const std::lock_guard lock(mutex_);
  counts_.copies += queue(stream) ? 1 : 0;
}

void Recorder::add_fill(const void* stream) {
  const std::lock_guard lock(mutex_);
  counts_.fills += queue(stream) ? 1 : 0;
}

void Recorder::begin_recording(const void* stream) {
  const std::lock_guard lock(mutex_);
  recording_.insert(stream);
}

void Recorder::end_recording(const void* stream) {
  const std::lock_guard lock(mutex_);
  recording_.erase(stream);
}

bool Recorder::is_recording(const void* stream) {
  const std::lock_guard lock(mutex_);
  return recording_.contains(stream);
}

void Recorder::add_allocated(size_t bytes) {
  const std::lock_guard lock(mutex_);
  counts_.allocated_bytes += static_cast<int64_t>(bytes);
}

void Recorder::add_to_device(size_t bytes) {
  const std::lock_guard lock(mutex_);
  counts_.to_device_bytes += static_cast<int64_t>(bytes);
}

void Recorder::add_to_host(size_t bytes) {
  const std::lock_guard lock(mutex_);
  counts_.to_host_bytes += static_cast<int64_t>(bytes);
}

void Recorder::add_exchanged(size_t bytes) {
  const std::lock_guard lock(mutex_);
  counts_.exchanged_bytes += static_cast<int64_t>(bytes);
}

int64_t Recorder::last_of(const void* stream) {
  const std::lock_guard lock(mutex_);
  return last_of_[stream];
}

int64_t Recorder::last() {
  const std::lock_guard lock(mutex_);
  return last_;
}

void Recorder::wait_for(int64_t number) {
  const std::lock_guard lock(mutex_);
  if (number <= waited_for_) return;
  ++counts_.host_waits;
  waited_for_ = number;
}

Counts Recorder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(counts_, {});
}

}  // namespace meg::pretended
