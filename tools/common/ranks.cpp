#include "tools/common/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "libmeg/libtorch/device.h"
#include "libmeg/parallel/launch_environment.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

/// What is too large for an int is no size of any run, and refused as such when the ranks meet.
int size_of(int64_t size) {
  return static_cast<int>(std::min<int64_t>(size, std::numeric_limits<int>::max()));
}

Result<RankFlags> rank_flags(const megatron::ArgumentValues& args) {
  RankFlags flags;
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  flags.take_fields(reader);
  MEG_RETURN_IF_ERROR(reader.status());
  return flags;
}

/// Says why, once in this process; its threads may fail together.
void say_once(const Status& why) {
  static std::mutex mutex;
  static bool said = false;
  const std::lock_guard lock(mutex);
  if (!std::exchange(said, true)) fail(why);
}

/// Ends the process alone: what else ends with it would wait for the GPU, which waits for another
/// rank.
[[noreturn]] void end_at_once() {
  std::fflush(stdout);
  std::_Exit(1);
}

void end_process(const Status& why, bool says_why) {
  if (says_why) say_once(why);
  end_at_once();
}

}  // namespace

void RankFlags::take_fields(megatron::FieldReader& args) {
  args.take("tensor_model_parallel_size", tensor_model_parallel_size);
  args.take("context_parallel_size", context_parallel_size);
  args.take("pipeline_model_parallel_size", pipeline_model_parallel_size);
  args.take("use_tp_pp_dp_mapping", use_tp_pp_dp_mapping);
  args.take("distributed_timeout_minutes", distributed_timeout_minutes);
}

void ExpertRankFlags::take_fields(megatron::FieldReader& args) {
  args.take("expert_model_parallel_size", expert_model_parallel_size);
  args.take("expert_tensor_parallel_size", expert_tensor_parallel_size);
}

bool is_first_rank() {
  const Result<parallel::LaunchEnvironment> environment = parallel::read_launch_environment();
  return !environment.has_value() || environment->rank == 0;
}

Result<parallel::ParallelState> connect_ranks(const megatron::ArgumentValues& args,
                                              const std::string& device,
                                              const ExpertRankFlags& experts) {
  MEG_ASSIGN_OR_RETURN(const parallel::LaunchEnvironment environment,
                       parallel::read_launch_environment());
  MEG_ASSIGN_OR_RETURN(const at::Device own, libtorch::device_of(device, environment.local_rank));
  MEG_ASSIGN_OR_RETURN(const RankFlags flags, rank_flags(args));
  const parallel::Mesh::Sizes sizes = {
      size_of(flags.tensor_model_parallel_size), size_of(flags.context_parallel_size),
      size_of(experts.expert_model_parallel_size), 0, size_of(flags.pipeline_model_parallel_size)};
  return parallel::ParallelState::connect(
      environment, sizes,
      flags.use_tp_pp_dp_mapping ? parallel::RankOrder::kPipelineBeforeData
                                 : parallel::RankOrder::kDataBeforePipeline,
      std::chrono::minutes(flags.distributed_timeout_minutes),
      {.device = own, .on_lost = end_process}, size_of(experts.expert_tensor_parallel_size));
}

void note_backend(const megatron::ArgumentValues& args, const parallel::ParallelState& ranks) {
  if (ranks.mesh().world_size() == 1 || ranks.mesh().rank() != 0) return;
  const bool on_gpus = ranks.device().is_cuda();
  const std::string other = on_gpus ? "gloo" : "nccl";
  if (!args.given("distributed_backend") ||
      args.field("distributed_backend") != megatron::FieldValue(other)) {
    return;
  }
  note(fmt::format("--distributed-backend {}: the ranks compute on {} and communicate through {}",
                   other, on_gpus ? "GPUs" : "CPUs", on_gpus ? "nccl" : "gloo"));
}

int fail_once(const Status& status, const parallel::ParallelState& ranks) {
  if (ranks.claim_failure()) {
    const bool names_rank = ranks.mesh().world_size() == 1 || status.message().starts_with("rank ");
    say_once(names_rank ? status : status.with_prefix(fmt::format("rank {}", ranks.mesh().rank())));
  }
  if (ranks.mesh().world_size() > 1 && ranks.device().is_cuda()) end_at_once();
  return 1;
}

}  // namespace meg::tools
