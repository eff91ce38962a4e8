// Reads numbered samples of a dataset and prints how fast; first compares them with a file.
//
// read_samples PREFIX CACHE SEQUENCE_LENGTH NUMBERS TOKENS REPEAT
//   CACHE: folder for the index caches. NUMBERS: K sample numbers. TOKENS: their texts,
//   K x (SEQUENCE_LENGTH + 1). Both int64, little endian, without a header.
// Prints `way seconds processor_seconds` for each pass: `fields` (text and fields of every number,
// one thread), and `loader0`, `loader1`, `loader2` (micro-batches of 8 from the first sample on, as
// many samples; the number is that of the threads).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "libmeg/io/mapped_file.h"
#include "libmeg/samples/batches/sample_loader.h"
#include "libmeg/samples/gpt_datasets.h"

namespace {

using meg::samples::SampleDataset;

constexpr int64_t kMicroBatch = 8;
constexpr int64_t kEod = 50256;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

template <class T>
T need(meg::Result<T> result) {
  if (!result.has_value()) fail(result.error().message());
  return std::move(result).value();
}

std::vector<int64_t> read_integers(const char* path) {
  const meg::io::MappedFile file = need(meg::io::MappedFile::open(path));
  std::vector<int64_t> values(file.bytes().size() / sizeof(int64_t));
  std::memcpy(values.data(), file.bytes().data(), values.size() * sizeof(int64_t));
  return values;
}

/// One sample's memory, used again for each.
struct Sample {
  explicit Sample(size_t length)
      : tokens(length), labels(length), loss_mask(length), position_ids(length) {}

  std::vector<int64_t> tokens;
  std::vector<int64_t> labels;
  std::vector<float> loss_mask;
  std::vector<int64_t> position_ids;
};

meg::samples::GptSampleOptions options_for(int64_t length) {
  return {.sequence_length = length, .eod = kEod};
}

/// visit(i, sample) for each of the numbers.
template <class Visit>
void read_fields(const meg::samples::SampleDataset& dataset, const std::vector<int64_t>& numbers,
                 int64_t length, Visit visit) {
  const meg::samples::GptSampleOptions options = options_for(length);
  Sample sample(static_cast<size_t>(length));
  std::vector<int64_t> text(static_cast<size_t>(dataset.text_length()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const meg::Status status = dataset.text(numbers[i], options.pad, text);
    if (!status.ok()) fail(status.message());
    meg::samples::fill_gpt_sample(
        text, options, {sample.tokens, sample.labels, sample.loss_mask, sample.position_ids, {}});
    visit(i, sample);
  }
}

void compare(const meg::samples::SampleDataset& dataset, const std::vector<int64_t>& numbers,
             int64_t length, const std::vector<int64_t>& texts) {
  const size_t text_length = static_cast<size_t>(length) + 1;
  if (texts.size() != numbers.size() * text_length) fail("TOKENS: wrong size");
  read_fields(dataset, numbers, length, [&](size_t i, const Sample& sample) {
    const auto expected = texts.begin() + static_cast<int64_t>(i * text_length);
    if (!std::equal(sample.tokens.begin(), sample.tokens.end(), expected) ||
        !std::equal(sample.labels.begin(), sample.labels.end(), expected + 1)) {
      fail("sample " + std::to_string(numbers[i]) + " differs");
    }
  });
}

template <class Work>
void time_pass(const std::string& way, Work work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t processor_start = std::clock();
  work();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double processor_seconds =
      static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC;
  std::printf("%s %.6f %.6f\n", way.c_str(), seconds.count(), processor_seconds);
}

void load(const meg::samples::SampleDataset& dataset, int64_t length, int64_t samples,
          int threads) {
  auto sampler = need(meg::samples::BatchSampler::create(
      {.total_samples = dataset.size(), .micro_batch_size = kMicroBatch}));
  const auto loader = need(meg::samples::SampleLoader::create(
      dataset, std::move(sampler),
      {.sample = options_for(length), .micro_batch_size = kMicroBatch, .threads = threads}));
  for (int64_t read = 0; read < samples; read += kMicroBatch) {
    if (need(loader->next()) == nullptr) fail("the dataset has too few samples");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) fail("usage: read_samples PREFIX CACHE SEQUENCE_LENGTH NUMBERS TOKENS REPEAT");
  const int64_t length = std::atoll(argv[3]);
  meg::samples::GptDataConfig config;
  config.blend = meg::samples::Blend{.prefixes = {argv[1]}, .weights = {}};
  config.split = "1,0,0";
  config.sequence_length = length;
  config.cache_path = argv[2];
  config.version = need(meg::megatron::parse_megatron_version("core_v0.16.1"));
  const meg::samples::GptDatasets datasets = need(meg::samples::build_gpt_datasets(config));
  const meg::samples::SampleDataset& dataset = *datasets.splits[0];
  const std::vector<int64_t> numbers = read_integers(argv[4]);
  compare(dataset, numbers, length, read_integers(argv[5]));
  const auto samples = static_cast<int64_t>(numbers.size()) / kMicroBatch * kMicroBatch;
  for (int64_t pass = 0; pass < std::atoll(argv[6]); ++pass) {
    time_pass("fields",
              [&] { read_fields(dataset, numbers, length, [](size_t, const Sample&) {}); });
    for (const int threads : {0, 1, 2}) {
      time_pass("loader" + std::to_string(threads),
                [&] { load(dataset, length, samples, threads); });
    }
  }
  return 0;
}
