// Prints a rank's first micro-batches, one a line, for a comparison with another implementation.
// Usage: draw_batches single|cyclic|full-validation TOTAL CONSUMED MICRO_BATCH RANK RANKS
//        SHARDING(0|1) COUNT

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "libmeg/samples/batches/batch_sampler.h"

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  const std::string type = argv[1];
  const auto number = [&](int i) { return std::strtoll(argv[i], nullptr, 10); };
  const auto sampler = meg::samples::BatchSampler::create({
      .type = type == "cyclic"   ? meg::samples::DataloaderType::kCyclic
              : type == "single" ? meg::samples::DataloaderType::kSingle
                                 : meg::samples::DataloaderType::kFullValidation,
      .total_samples = number(2),
      .consumed_samples = number(3),
      .micro_batch_size = number(4),
      .data_parallel_rank = number(5),
      .data_parallel_size = number(6),
      .data_sharding = number(7) != 0,
  });
  if (!sampler.has_value()) {
    std::fprintf(stderr, "%s\n", sampler.error().message().c_str());
    return 1;
  }
  std::vector<int64_t> samples;
  for (long long i = 0; i < number(8) && (*sampler)->next(samples); ++i) {
    for (const int64_t sample : samples) std::printf("%lld ", static_cast<long long>(sample));
    std::puts("");
  }
  return 0;
}
