// Prints the steps of a run with --step-batch-size-schedule, for a comparison with another
// implementation: their number, and the batch size of each.
// Usage: draw_schedule SCHEDULE SEQUENCE_LENGTH MICRO_BATCH RANKS TRAIN_SAMPLES

#include <cstdio>
#include <cstdlib>

#include "libmeg/samples/data_run.h"

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const auto number = [&](int i) { return std::strtoll(argv[i], nullptr, 10); };
  meg::samples::DataArgs args;
  args.mock_data = true;
  args.step_batch_size_schedule = argv[1];
  args.sequence_length = number(2);
  args.micro_batch_size = number(3);
  args.world_size = number(4);
  args.length.train_samples = number(5);
  const auto run = meg::samples::resolve_data(args, std::nullopt);
  if (!run.has_value()) {
    std::fprintf(stderr, "%s\n", run.error().message().c_str());
    return 1;
  }
  std::printf("%lld", static_cast<long long>(run->train_iters));
  for (int64_t step = 1; step <= run->train_iters; ++step) {
    const int64_t consumed = run->batches.consumed_before(step);
    std::printf(" %lld", static_cast<long long>(run->batches.batch_size_after(consumed)));
  }
  std::puts("");
  return 0;
}
