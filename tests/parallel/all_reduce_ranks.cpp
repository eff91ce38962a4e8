// One rank of the all-reduce test; several are started by torchrun or mpirun. Exits with 0 where
// the sum over the ranks is right.

#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>

#include "libmeg/parallel/parallel_state.h"

namespace {

using meg::Status;
using meg::StatusCode;

/// Rank r brings (r + 1) * [0, 1, 2 ...]; the sum is [0, 1, 2 ...] times 1 + 2 + ... + world_size.
Status check_sum(meg::parallel::ProcessGroup& group) {
  const at::Tensor ramp = at::arange(1000, at::kDouble);
  const at::Tensor tensor = ramp * (group.rank() + 1);
  MEG_RETURN_IF_ERROR(group.all_reduce(tensor));
  const int ranks = group.size();
  if (!at::equal(tensor, ramp * (ranks * (ranks + 1) / 2))) {
    return meg::make_error(StatusCode::kInternal, "rank {}: the sum is wrong", group.rank());
  }
  return group.barrier();
}

Status run(int expected_ranks) {
  MEG_ASSIGN_OR_RETURN(const auto environment, meg::parallel::read_launch_environment());
  MEG_ASSIGN_OR_RETURN(const auto state,
                       meg::parallel::ParallelState::connect(
                           environment, {1, 1, 1, 0, 1},
                           meg::parallel::RankOrder::kDataBeforePipeline, std::chrono::minutes(1)));
  meg::parallel::ProcessGroup& group = state.world();
  if (group.size() != expected_ranks) {
    return meg::make_error(StatusCode::kInternal, "expected {} ranks, found {}", expected_ranks,
                           group.size());
  }
  MEG_RETURN_IF_ERROR(check_sum(group));
  std::printf("rank %d of %d: the sum is right\n", group.rank(), group.size());
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(argc == 2 ? std::atoi(argv[1]) : 1);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}
