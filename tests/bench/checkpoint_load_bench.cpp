// Loads a checkpoint into the memory of one rank as the trainer does, and prints how fast.
//
// checkpoint_load_bench FOLDER [WORKERS] [RUNS]
//   WORKERS: threads; 0 (the default): one a processor. Every tensor is read in its own type, its
//   CRC-32 compared, into memory that was touched before.
// Prints a line a run: bytes of targets, seconds, seconds of all processors.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "libmeg/checkpoint/training/read_training_tensors.h"

namespace {

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

meg::checkpoint::MegatronCheckpoint open(const std::string& path) {
  const meg::Result<meg::checkpoint::CheckpointFolder> folder =
      meg::checkpoint::find_checkpoint(path);
  if (!folder.has_value()) fail(folder.error().message());
  meg::Result<meg::checkpoint::MegatronCheckpoint> checkpoint =
      meg::checkpoint::MegatronCheckpoint::open(*folder);
  if (!checkpoint.has_value()) fail(checkpoint.error().message());
  return *std::move(checkpoint);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("usage: checkpoint_load_bench FOLDER [WORKERS] [RUNS]");
  const meg::checkpoint::MegatronCheckpoint checkpoint = open(argv[1]);
  meg::checkpoint::TrainingTensorOptions options;
  options.workers = argc > 2 ? std::atoi(argv[2]) : 0;
  std::vector<std::vector<std::byte>> memory;
  std::vector<meg::checkpoint::TrainingTensorTarget> targets;
  double bytes = 0;
  for (const meg::checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    for (const meg::checkpoint::LogicalTensor& tensor : parameter.tensors) {
      int64_t size = meg::dtype_size(tensor.dtype);
      for (const int64_t length : parameter.shape) size *= length;
      memory.emplace_back(static_cast<size_t>(size));
      targets.push_back({.name = parameter.name,
                         .kind = tensor.kind,
                         .dtype = tensor.dtype,
                         .shape = parameter.shape,
                         .bytes = memory.back()});
      bytes += static_cast<double>(size);
    }
  }
  for (int run = argc > 3 ? std::atoi(argv[3]) : 1; run > 0; --run) {
    const auto start = std::chrono::steady_clock::now();
    const double busy = processor_seconds();
    const meg::Status status = meg::checkpoint::read_training_tensors(checkpoint, targets, options);
    if (!status.ok()) fail(status.message());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    const double processors = processor_seconds() - busy;
    std::printf("%.2f GB in %.2f s, %.2f s of processors: %.2f GB/s a core\n", bytes / 1e9,
                passed.count(), processors, bytes / 1e9 / processors);
  }
}
