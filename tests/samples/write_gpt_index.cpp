// write_gpt_index PREFIX FOLDER SEED SEQUENCE_LENGTH [SAMPLES|all [EXTRA_TOKEN [DROP_LAST]]]
// Writes document_index.npy, sample_index.npy and shuffle_index.npy of all sequences of PREFIX.idx
// to FOLDER, as the newest Megatron core would. SAMPLES all: those of one epoch; EXTRA_TOKEN and
// DROP_LAST: 0 or 1. Prints the seconds from opening the dataset on and the peak memory in KiB.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/cache/gpt_index_files.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace {

using meg::Status;

meg::samples::GptIndexRequest request_of(const meg::dataset::IndexedDataset& dataset,
                                         const std::vector<std::string>& arguments) {
  const auto lengths = dataset.sequence_lengths();
  meg::samples::GptIndexRequest request;
  request.sequences = lengths.size();
  constexpr int64_t kPiece = int64_t{1} << 20;
  for (int64_t begin = 0; begin < lengths.size(); begin += kPiece) {
    const int64_t end = std::min(lengths.size(), begin + kPiece);
    for (int64_t i = begin; i < end; ++i) {
      request.tokens += lengths[i];
      request.longest_sequence = std::max<int64_t>(request.longest_sequence, lengths[i]);
    }
    dataset.idx().release(lengths.bytes(begin, end));
  }
  request.sequence_length = std::stoll(arguments[3]);
  if (arguments.size() > 4 && arguments[4] != "all") request.samples = std::stoll(arguments[4]);
  if (arguments.size() > 5) request.extra_token = arguments[5] == "1";
  if (arguments.size() > 6) request.drop_last_partial = arguments[6] == "1";
  return request;
}

Status write_indices(const std::vector<std::string>& arguments) {
  MEG_ASSIGN_OR_RETURN(const meg::dataset::IndexedDataset dataset,
                       meg::dataset::IndexedDataset::open(arguments[0]));
  const auto lengths = dataset.sequence_lengths();
  MEG_ASSIGN_OR_RETURN(const meg::samples::GptIndexPlan plan,
                       meg::samples::plan_gpt_index(request_of(dataset, arguments),
                                                    meg::megatron::newest_megatron_version()));
  const meg::samples::GptIndexPaths paths = {arguments[1] + "/document_index.npy",
                                             arguments[1] + "/sample_index.npy",
                                             arguments[1] + "/shuffle_index.npy"};
  const auto seed = static_cast<uint32_t>(std::stoul(arguments[2]));
  MEG_ASSIGN_OR_RETURN(
      std::vector<meg::io::AtomicFile> files,
      meg::samples::write_gpt_index_files(plan, dataset, {0, lengths.size()}, seed, paths));
  meg::io::AtomicFile* const all[] = {&files[0], &files[1], &files[2]};
  return meg::io::AtomicFile::commit_all(all, meg::io::AtomicFile::Flush::kFiles);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 4) return 2;
  const auto start = std::chrono::steady_clock::now();
  const Status status = write_indices(arguments);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!status.ok()) fmt::print(stderr, "error: {}\n", status.message());
  if (!status.ok()) return 1;
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{:.3f} {}\n", seconds.count(), usage.ru_maxrss);
  return 0;
}
