#include "tools/pretrain_gpt/pretrain_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/parallel/launch_environment.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

/// Where a launcher of old tells each process its number: no two ranks have the same.
constexpr std::string_view kOfEachRank[] = {"local_rank", "rank"};

/// A line for each argument: its flag and its value.
std::string argument_lines(const PretrainFlags& run) {
  std::string lines = fmt::format("--device {}\n--target-names {}\n", run.device, run.names);
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    if (std::ranges::count(kOfEachRank, row.dest) != 0) continue;
    const std::optional<megatron::FieldValue> value = run.args.field(row.dest);
    lines +=
        fmt::format("{} {}\n", row.flag, value.has_value() ? megatron::field_text(*value) : "None");
  }
  return lines;
}

Status check_lines(const std::string& own, const std::string& first) {
  std::istringstream own_lines(own);
  std::istringstream first_lines(first);
  std::string mine;
  std::string expected;
  while (std::getline(own_lines, mine) && std::getline(first_lines, expected)) {
    if (mine == expected) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "command line: expected {} as rank 0 has it, found {}", expected, mine);
  }
  return {};
}

Status check_same_arguments(const PretrainFlags& run, const parallel::ParallelState& ranks) {
  if (ranks.mesh().world_size() == 1) return {};
  const std::string own = argument_lines(run);
  MEG_ASSIGN_OR_RETURN(const std::string first, ranks.of_first_rank(own));
  return ranks.agree(check_lines(own, first));
}

int size_of(int64_t size) {
  return static_cast<int>(std::min<int64_t>(size, std::numeric_limits<int>::max()));
}

Result<RankFlags> rank_flags(const PretrainFlags& run) {
  RankFlags flags;
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  flags.take_fields(args);
  MEG_RETURN_IF_ERROR(args.status());
  return flags;
}

/// Megatron's default backend needs GPUs.
void note_backend(const PretrainFlags& run, const parallel::ParallelState& ranks) {
  const bool given = run.args.given("distributed_backend") &&
                     run.args.field("distributed_backend") == megatron::FieldValue("nccl");
  if (given && ranks.mesh().world_size() > 1 && ranks.mesh().rank() == 0) {
    note("--distributed-backend nccl: the ranks compute on CPUs, which gloo connects");
  }
}

}  // namespace

void RankFlags::take_fields(megatron::FieldReader& args) {
  args.take("use_tp_pp_dp_mapping", use_tp_pp_dp_mapping);
  args.take("data_parallel_random_init", data_parallel_random_init);
  args.take("distributed_timeout_minutes", distributed_timeout_minutes);
}

Result<parallel::ParallelState> connect_ranks(const PretrainFlags& run) {
  MEG_ASSIGN_OR_RETURN(const parallel::LaunchEnvironment environment,
                       parallel::read_launch_environment());
  MEG_ASSIGN_OR_RETURN(const RankFlags flags, rank_flags(run));
  const parallel::Mesh::Sizes sizes = {size_of(run.data.tensor_model_parallel_size),
                                       size_of(run.data.context_parallel_size), 1, 0,
                                       size_of(run.data.pipeline_model_parallel_size)};
  return parallel::ParallelState::connect(environment, sizes,
                                          flags.use_tp_pp_dp_mapping
                                              ? parallel::RankOrder::kPipelineBeforeData
                                              : parallel::RankOrder::kDataBeforePipeline,
                                          std::chrono::minutes(flags.distributed_timeout_minutes));
}

Status check_ranks(const PretrainFlags& run, const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(check_same_arguments(run, ranks));
  MEG_ASSIGN_OR_RETURN(const RankFlags flags, rank_flags(run));
  if (flags.data_parallel_random_init && ranks.data()->size() > 1) {
    return make_error(StatusCode::kUnsupported,
                      "--data-parallel-random-init on {} data-parallel ranks: not supported yet",
                      ranks.data()->size());
  }
  note_backend(run, ranks);
  return {};
}

}  // namespace meg::tools
