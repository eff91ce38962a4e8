// gpt_index_stages PREFIX SEED SEQUENCE_LENGTH: builds the document, sample and shuffle index of
// all sequences of PREFIX.idx in memory, one epoch, one after another on one thread. Prints the
// seconds of each; copying the lengths out of the mapped file counts to the sample index.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/huge_array.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/internal/gpt_index_builder.h"

namespace {

using Clock = std::chrono::steady_clock;

double lap(Clock::time_point& since) {
  const Clock::time_point now = Clock::now();
  return std::chrono::duration<double>(now - std::exchange(since, now)).count();
}

meg::Status build(const std::string& prefix, uint32_t seed, int64_t sequence_length) {
  MEG_ASSIGN_OR_RETURN(const meg::dataset::IndexedDataset dataset,
                       meg::dataset::IndexedDataset::open(prefix));
  const auto lengths = dataset.sequence_lengths();
  meg::samples::GptIndexRequest request;
  request.sequences = lengths.size();
  for (int64_t i = 0; i < lengths.size(); ++i) request.tokens += lengths[i];
  request.sequence_length = sequence_length;
  MEG_ASSIGN_OR_RETURN(
      const meg::samples::GptIndexPlan plan,
      meg::samples::plan_gpt_index(request, meg::megatron::newest_megatron_version()));
  Clock::time_point since = Clock::now();
  meg::numpy::RandomState random(seed);
  meg::HugeArray<int32_t> documents(static_cast<size_t>(plan.documents()));
  MEG_RETURN_IF_ERROR(
      meg::samples::build_document_index(plan, {0, plan.sequences}, random, documents.values()));
  const double document = lap(since);
  meg::HugeArray<int32_t> copy(static_cast<size_t>(lengths.size()));
  lengths.copy(0, copy.values());
  const meg::dataset::LittleEndianArray<int32_t> array(std::as_bytes(copy.values()));
  meg::HugeArray<int32_t> rows(2 * static_cast<size_t>(plan.samples + 1));
  auto rest = rows.values();
  const meg::samples::SampleRowSink<int32_t> sink = [&rest](std::span<const int32_t> some) {
    std::copy(some.begin(), some.end(), rest.begin());
    rest = rest.subspan(some.size());
    return meg::Status();
  };
  MEG_RETURN_IF_ERROR(
      meg::samples::build_sample_index<int32_t>(plan, array, documents.values(), sink));
  const double sample = lap(since);
  meg::HugeArray<uint32_t> shuffle(static_cast<size_t>(plan.samples));
  MEG_RETURN_IF_ERROR(meg::samples::build_shuffle_index<uint32_t>(plan, random, shuffle.values()));
  fmt::print("{:.3f} {:.3f} {:.3f}\n", document, sample, lap(since));
  return meg::Status();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3) return 2;
  const meg::Status status = build(arguments[0], static_cast<uint32_t>(std::stoul(arguments[1])),
                                   std::stoll(arguments[2]));
  if (!status.ok()) fmt::print(stderr, "error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
