#include "libmeg/samples/batches/batch_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

// Megatron asks for the batch size before every step, from the samples consumed so far.
// Answering "which step, which sample" by repeating that would take as many turns as steps, so
// walk() does it once and keeps intervals of steps with one batch size: a run without ramp-up or
// changes has one, else there is one for each of them. The quotient of batch_size_after is a
// float64 division that is cut to an integer, as in Python; everything else asks that function, so
// that it is rounded in one place only.

namespace meg::samples {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
/// Up to here int64 and the float64 that Megatron computes with are the same numbers.
constexpr int64_t kExactInDouble = int64_t{1} << 53;
/// More increments than any run has; bounds memory and time where flags are nonsense.
constexpr size_t kMaxIntervals = size_t{1} << 16;

Status check_range(std::string_view field, int64_t value, int64_t least) {
  if (value >= least && value <= kExactInDouble) return Status();
  return make_error(StatusCode::kInvalidArgument, "{}: expected {} to {}, found {}", field, least,
                    kExactInDouble, value);
}

Status check_rampup(const BatchRampup& rampup, int64_t global_batch_size) {
  constexpr std::string_view kField = "`rampup_batch_size`";
  MEG_RETURN_IF_ERROR(check_range("`rampup_batch_size`: start", rampup.start, 1));
  MEG_RETURN_IF_ERROR(check_range("`rampup_batch_size`: increment", rampup.increment, 1));
  MEG_RETURN_IF_ERROR(check_range("`rampup_batch_size`: samples", rampup.samples, 1));
  if (rampup.start >= global_batch_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: start: expected less than the global batch size {}, found {}", kField,
                      global_batch_size, rampup.start);
  }
  const int64_t difference = global_batch_size - rampup.start;
  if (difference % rampup.increment != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: increment: expected a divisor of {} (global batch size {} less start "
                      "{}), found {}",
                      kField, difference, global_batch_size, rampup.start, rampup.increment);
  }
  return Status();
}

/// Sorts them.
Status check_changes(std::vector<BatchChange>& changes) {
  constexpr std::string_view kField = "`step_batch_size_schedule`";
  std::sort(changes.begin(), changes.end(),
            [](const BatchChange& a, const BatchChange& b) { return a.samples < b.samples; });
  if (!changes.empty() && changes[0].samples != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected the first batch size at 0 samples, found {}", kField,
                      changes[0].samples);
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    MEG_RETURN_IF_ERROR(
        check_range("`step_batch_size_schedule`: batch size", changes[i].batch_size, 1));
    MEG_RETURN_IF_ERROR(check_range("`step_batch_size_schedule`: samples", changes[i].samples, 0));
    if (i > 0 && changes[i].samples == changes[i - 1].samples) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected one batch size at {} samples, found {} and {}", kField,
                        changes[i].samples, changes[i - 1].batch_size, changes[i].batch_size);
    }
  }
  return Status();
}

/// first + count * size, at most kMost. None is negative.
int64_t saturating_advance(int64_t first, int64_t count, int64_t size) {
  int64_t product = 0;
  int64_t sum = 0;
  if (__builtin_mul_overflow(count, size, &product)) return kMost;
  return __builtin_add_overflow(first, product, &sum) ? kMost : sum;
}

}  // namespace

Result<BatchSchedule> BatchSchedule::create(const Options& options) {
  MEG_RETURN_IF_ERROR(check_range("`micro_batch_size`", options.micro_batch_size, 1));
  MEG_RETURN_IF_ERROR(check_range("data-parallel size", options.data_parallel_size, 1));
  MEG_RETURN_IF_ERROR(check_range("`global_batch_size`", options.global_batch_size, 0));
  int64_t least = 0;
  if (__builtin_mul_overflow(options.micro_batch_size, options.data_parallel_size, &least)) {
    least = kMost;
  }
  MEG_RETURN_IF_ERROR(check_range("micro batch size times data-parallel size", least, 1));

  BatchSchedule schedule;
  schedule.intervals_.clear();
  schedule.global_batch_size_ = options.global_batch_size == 0 ? least : options.global_batch_size;
  schedule.micro_batch_size_ = options.micro_batch_size;
  schedule.data_parallel_size_ = options.data_parallel_size;
  if (options.rampup) {
    MEG_RETURN_IF_ERROR(check_rampup(*options.rampup, schedule.global_batch_size_));
    schedule.rampup_ = options.rampup;
    const int64_t increments =
        (schedule.global_batch_size_ - options.rampup->start) / options.rampup->increment;
    schedule.samples_per_increment_ =
        static_cast<double>(options.rampup->samples) / static_cast<double>(increments);
  }
  schedule.changes_ = options.changes;
  MEG_RETURN_IF_ERROR(check_changes(schedule.changes_));
  MEG_RETURN_IF_ERROR(schedule.walk());
  return schedule;
}

/// The first of changes_ that has not come yet.
std::vector<BatchChange>::const_iterator BatchSchedule::change_after(int64_t consumed) const {
  return std::upper_bound(
      changes_.begin(), changes_.end(), consumed,
      [](int64_t samples, const BatchChange& change) { return samples < change.samples; });
}

int64_t BatchSchedule::batch_size_after(int64_t consumed_samples) const {
  if (!changes_.empty()) return std::prev(change_after(consumed_samples))->batch_size;
  if (!rampup_ || consumed_samples > rampup_->samples) return global_batch_size_;
  const auto increments =
      static_cast<int64_t>(static_cast<double>(consumed_samples) / samples_per_increment_);
  return rampup_->start + increments * rampup_->increment;
}

/// The least number of consumed samples above `consumed` whose batch is larger, by bisection: the
/// quotient of batch_size_after is rounded, so no product gives it exactly.
int64_t BatchSchedule::samples_until_larger(int64_t consumed) const {
  const int64_t batch_size = batch_size_after(consumed);
  int64_t same = consumed;
  int64_t larger = rampup_->samples + 1;
  // The quotient grows with the samples, however it is rounded, so there is one border. At the end
  // of the ramp-up the batch may stay as large as it is.
  while (larger - same > 1) {
    const int64_t middle = same + (larger - same) / 2;
    (batch_size_after(middle) == batch_size ? same : larger) = middle;
  }
  return larger;
}

/// Where a step that begins after more than `consumed` samples may have another batch size.
std::optional<int64_t> BatchSchedule::next_change(int64_t consumed) const {
  if (rampup_ && consumed <= rampup_->samples) return samples_until_larger(consumed);
  const auto change = change_after(consumed);
  return change == changes_.end() ? std::nullopt : std::optional(change->samples);
}

Status BatchSchedule::check_batch_size(std::string_view name, int64_t batch_size,
                                       std::optional<int64_t> micro_batch_size) const {
  const int64_t micro = micro_batch_size.value_or(micro_batch_size_);
  const int64_t at_once = micro * data_parallel_size_;
  if (batch_size > 0 && batch_size % at_once == 0) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a multiple of {} (micro batch size {} times data-parallel size "
                    "{}), found {}",
                    name, at_once, micro, data_parallel_size_, batch_size);
}

Status BatchSchedule::check_micro_batches_fill(int64_t stages, int64_t group) const {
  if (group < stages) {
    return make_error(
        StatusCode::kInvalidArgument,
        "`microbatch_group_size_per_virtual_pipeline_stage`: expected at least the {} "
        "pipeline stages, found {}",
        stages, group);
  }
  const std::string expected =
      group == stages
          ? fmt::format("a multiple of the {} pipeline stages with virtual stages", stages)
          : fmt::format("at least a group of {} and has a remainder of 0 or at least {}", group,
                        stages);
  const auto check = [&](std::string_view name, int64_t samples) {
    const int64_t at_once = micro_batch_size_ * data_parallel_size_;
    const int64_t micro_batches = samples / at_once;
    const int64_t rest = micro_batches % group;
    if (samples % at_once == 0 && micro_batches >= group && (rest == 0 || rest >= stages)) {
      return Status();
    }
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a number of micro-batches that is {}, found {} samples: {:g} "
                      "micro-batches",
                      name, expected, samples,
                      static_cast<double>(samples) / static_cast<double>(at_once));
  };
  MEG_RETURN_IF_ERROR(check("`global_batch_size`", global_batch_size_));
  for (const BatchChange& change : changes_) {
    MEG_RETURN_IF_ERROR(check("`step_batch_size_schedule`", change.batch_size));
  }
  if (!rampup_) return Status();
  for (int64_t size = rampup_->start; size < global_batch_size_; size += rampup_->increment) {
    MEG_RETURN_IF_ERROR(check("`rampup_batch_size`", size));
  }
  return Status();
}

Status BatchSchedule::add_interval(Interval interval) {
  MEG_RETURN_IF_ERROR(check_batch_size(
      fmt::format("step {}: global batch size", interval.first_step), interval.batch_size));
  if (intervals_.size() == kMaxIntervals) {
    return make_error(
        StatusCode::kInvalidArgument, "{}: expected at most {} batch sizes, found more",
        rampup_ ? "`rampup_batch_size`" : "`step_batch_size_schedule`", kMaxIntervals);
  }
  intervals_.push_back(interval);
  return Status();
}

Status BatchSchedule::walk() {
  Interval next{.first_step = 1, .first_sample = 0, .batch_size = batch_size_after(0)};
  while (const std::optional<int64_t> change = next_change(next.first_sample)) {
    MEG_RETURN_IF_ERROR(add_interval(next));
    const int64_t samples = *change - next.first_sample;
    // The batch size changes between steps only: the step that crosses the border is still of the
    // old size.
    const int64_t steps = (samples - 1) / next.batch_size + 1;
    next.first_step += steps;
    next.first_sample += steps * next.batch_size;
    next.batch_size = batch_size_after(next.first_sample);
  }
  return add_interval(next);
}

int64_t BatchSchedule::consumed_before(int64_t step) const {
  const auto after = std::upper_bound(
      intervals_.begin(), intervals_.end(), step,
      [](int64_t wanted, const Interval& interval) { return wanted < interval.first_step; });
  const Interval& interval = *std::prev(after);
  return saturating_advance(interval.first_sample, step - interval.first_step, interval.batch_size);
}

int64_t BatchSchedule::step_of(int64_t sample) const {
  const auto after = std::upper_bound(
      intervals_.begin(), intervals_.end(), sample,
      [](int64_t wanted, const Interval& interval) { return wanted < interval.first_sample; });
  const Interval& interval = *std::prev(after);
  return interval.first_step + (sample - interval.first_sample) / interval.batch_size;
}

int64_t BatchSchedule::steps_for(int64_t train_samples, bool whole_rampup) const {
  if (!changes_.empty()) return train_samples <= 0 ? 0 : step_of(train_samples - 1);
  if (!rampup_) return train_samples / global_batch_size_;
  if (train_samples < 0) return 0;
  const int64_t last_ramp_sample =
      whole_rampup ? rampup_->samples : std::min(rampup_->samples, train_samples);
  const int64_t ramp_steps = step_of(last_ramp_sample);
  // Floor division: the ramp-up's steps may have consumed more than there is.
  const int64_t left = train_samples - consumed_before(ramp_steps + 1);
  if (left >= 0) return ramp_steps + left / global_batch_size_;
  if (!whole_rampup) return ramp_steps;
  return ramp_steps - (-left + global_batch_size_ - 1) / global_batch_size_;
}

}  // namespace meg::samples
