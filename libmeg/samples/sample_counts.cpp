#include "libmeg/samples/sample_counts.h"

#include <algorithm>

namespace meg::samples {
namespace {

/// Python's `//`, which rounds down, also below 0.
int64_t floor_divided(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

Result<int64_t> product(int64_t a, int64_t b, const char* what) {
  int64_t result = 0;
  if (!__builtin_mul_overflow(a, b, &result)) return result;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected less than 2^63 samples, found {} x {}", what, a, b);
}

Status at_least(int64_t least, int64_t value, const char* field) {
  if (value >= least) return Status();
  return make_error(StatusCode::kInvalidArgument, "{}: expected at least {}, found {}", field,
                    least, value);
}

int64_t evaluation_batch_size(const RunLength& length, const BatchSchedule& batches) {
  return length.eval_global_batch_size.value_or(batches.global_batch_size());
}

Status check_evaluation_batch(const RunLength& length, const BatchSchedule& batches) {
  MEG_RETURN_IF_ERROR(
      at_least(1, length.eval_micro_batch_size.value_or(1), "`eval_micro_batch_size`"));
  const bool has_own = length.eval_global_batch_size.has_value();
  if (!has_own && !length.eval_micro_batch_size.has_value()) return Status();
  return batches.check_batch_size(
      has_own ? "`eval_global_batch_size`" : "`global_batch_size` of an evaluation",
      evaluation_batch_size(length, batches), length.eval_micro_batch_size);
}

Status check(const RunLength& length, const BatchSchedule& batches,
             const megatron::MegatronVersion& version) {
  if (length.train_iters.has_value() == length.train_samples.has_value()) {
    return Status(StatusCode::kInvalidArgument,
                  length.train_iters.has_value()
                      ? "expected only one of `train_iters` and `train_samples`, found both"
                      : "`train_iters` or `train_samples` is required");
  }
  MEG_RETURN_IF_ERROR(at_least(0, length.train_iters.value_or(0), "`train_iters`"));
  MEG_RETURN_IF_ERROR(at_least(1, length.train_samples.value_or(1), "`train_samples`"));
  MEG_RETURN_IF_ERROR(at_least(0, length.eval_iters, "`eval_iters`"));
  // An interval of 0 would be divided by, but where evaluations are not counted Megatron never
  // does.
  const bool evaluates_once = length.skip_train && version.skip_train_evaluates_once;
  MEG_RETURN_IF_ERROR(at_least(length.full_validation || evaluates_once ? 0 : 1,
                               length.eval_interval, "`eval_interval`"));
  MEG_RETURN_IF_ERROR(at_least(0, length.start_eval_at_iter.value_or(0), "`start_eval_at_iter`"));
  MEG_RETURN_IF_ERROR(check_evaluation_batch(length, batches));
  if (length.full_validation && !version.open_sample_counts) {
    return make_error(StatusCode::kInvalidArgument,
                      "`full_validation`: {} of Megatron-LM has no unlimited counts", version.name);
  }
  return Status();
}

/// Steps of all evaluations on the validation set.
Result<int64_t> validation_steps(const RunLength& length, int64_t train_iters,
                                 const megatron::MegatronVersion& version) {
  // Without training older revisions ask for the evaluations of the whole run nevertheless.
  if (length.skip_train && version.skip_train_evaluates_once) return length.eval_iters;
  // One after every interval and one at the end of the run.
  int64_t evaluations = floor_divided(train_iters, length.eval_interval) + 1;
  if (length.start_eval_at_iter.has_value()) {
    const int64_t skipped = *length.start_eval_at_iter / length.eval_interval;
    evaluations = std::max<int64_t>(0, evaluations - skipped);
  }
  return product(evaluations, length.eval_iters, "validation");
}

}  // namespace

Result<SampleCounts> count_samples(const RunLength& length, const BatchSchedule& batches,
                                   const megatron::MegatronVersion& version) {
  MEG_RETURN_IF_ERROR(check(length, batches, version));
  SampleCounts counts;
  if (length.train_samples.has_value()) {
    const bool whole_rampup = version.rampup_steps == megatron::RampupSteps::kWhole;
    counts.train_iters = batches.steps_for(*length.train_samples, whole_rampup);
    counts.samples[split_number(Split::kTrain)] = length.train_samples;
  } else {
    counts.train_iters = *length.train_iters;
    MEG_ASSIGN_OR_RETURN(counts.samples[split_number(Split::kTrain)],
                         product(counts.train_iters, batches.global_batch_size(), "train"));
  }
  const int64_t eval_batch = evaluation_batch_size(length, batches);
  // Without a count the validation set is one epoch, which is what --full-validation reads.
  if (!length.full_validation) {
    MEG_ASSIGN_OR_RETURN(const int64_t steps,
                         validation_steps(length, counts.train_iters, version));
    MEG_ASSIGN_OR_RETURN(counts.samples[split_number(Split::kValid)],
                         product(steps, eval_batch, "validation"));
  }
  MEG_ASSIGN_OR_RETURN(counts.samples[split_number(Split::kTest)],
                       product(length.eval_iters, eval_batch, "test"));
  return counts;
}

}  // namespace meg::samples
