#include "libmeg/samples/internal/mock_gpt_dataset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "libmeg/numpy/pcg64.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/internal/sample_walk.h"

namespace meg::samples {
namespace {

constexpr char kName[] = "mock data";

Status check_sample(int64_t sample, int64_t size) {
  if (sample >= 0 && sample < size) return Status();
  return make_error(StatusCode::kOutOfRange, "{}: sample {}: expected 0 to {}", kName, sample,
                    size - 1);
}

/// Each sample by itself: its number of ones, the ones, an end of document and padding, all of
/// tokens of their own that no tokenizer plays a part in.
/// Mirrors core_v0.5.0's MockGPTDataset.
class PaddedMockDataset : public SampleDataset {
 public:
  explicit PaddedMockDataset(const MockGptOptions& options)
      : split_(split_number(options.split)), sequence_length_(options.sequence_length) {}

  // Megatron's numpy.iinfo(numpy.int16).max.
  int64_t size() const override { return 32767; }

  int64_t text_length() const override { return sequence_length_ + 1; }

  Status text(int64_t sample, int64_t /*pad*/, std::span<int64_t> out) const override {
    MEG_RETURN_IF_ERROR(check_sample(sample, size()));
    numpy::Pcg64 random(std::array{uint64_t{split_}, static_cast<uint64_t>(sample)});
    const uint64_t ones = random.bounded(static_cast<uint64_t>(sequence_length_) - 1);
    out.front() = static_cast<int64_t>(ones);
    const auto rest = out.subspan(1, static_cast<size_t>(sequence_length_));
    std::fill_n(rest.begin(), ones, kOne);
    rest[ones] = kEod;
    std::fill(rest.begin() + static_cast<int64_t>(ones) + 1, rest.end(), kPad);
    return Status();
  }

  Result<SampleSource> source(int64_t sample) const override {
    MEG_RETURN_IF_ERROR(check_sample(sample, size()));
    return SampleSource{.parts = {{.sequence = sample, .offset = 0, .length = text_length()}}};
  }

  std::vector<std::string> prefixes() const override { return {kName}; }

 private:
  static constexpr int64_t kOne = 1;
  static constexpr int64_t kPad = 2;
  static constexpr int64_t kEod = 0;

  const size_t split_;
  const int64_t sequence_length_;
};

/// Documents 1, 2, 3, ... and an end of document, walked through like those of a file.
/// Mirrors MockGPTLowLevelDataset and MockGPTDataset of core_v0.7.0 and later.
class LengthsMockDataset : public SampleDataset {
 public:
  static Result<std::unique_ptr<SampleDataset>> create(const MockGptOptions& options,
                                                       const megatron::MegatronVersion& version);

  int64_t size() const override { return plan_.samples; }

  int64_t text_length() const override { return plan_.sequence_length + plan_.extra_token; }

  Status text(int64_t sample, int64_t pad, std::span<int64_t> out) const override;
  Result<SampleSource> source(int64_t sample) const override;

  std::vector<std::string> prefixes() const override { return {kName}; }

 private:
  LengthsMockDataset() : lengths_(kSequences) {
    numpy::Pcg64 random(0);
    for (int32_t& length : lengths_) {
      // numpy's integers(low=1, high=4096): the upper end is left out.
      length = 1 + static_cast<int32_t>(random.bounded(kLongest - 1));
    }
  }

  /// The tokens of a part; its end is within the sequence.
  void copy_tokens(const SamplePart& part, std::span<int64_t> out) const;

  template <class Visit>
  Status walk(int64_t sample, const Visit& visit) const {
    MEG_RETURN_IF_ERROR(check_sample(sample, size()));
    const auto length_of = [this](int64_t sequence) -> int64_t {
      return lengths_[static_cast<size_t>(sequence)];
    };
    return walk_sample(index_, index_.row_of(sample), plan_.extra_token, length_of, visit);
  }

  // MockGPTLowLevelDataset's size and the longest length that it draws.
  static constexpr size_t kSequences = 100'000;
  static constexpr uint64_t kLongest = 4095;

  std::vector<int32_t> lengths_;
  std::vector<int64_t> tokens_;  ///< Of the longest sequence without its end of document.
  int64_t eod_ = 0;
  GptIndex index_;
  GptIndexPlan plan_;
};

Result<std::unique_ptr<SampleDataset>> LengthsMockDataset::create(
    const MockGptOptions& options, const megatron::MegatronVersion& version) {
  std::unique_ptr<LengthsMockDataset> mock(new LengthsMockDataset);
  // Megatron gives mock data to the splits in three equal parts, whatever --split says.
  MEG_ASSIGN_OR_RETURN(const SplitWeights weights, SplitWeights::parse("1,1,1", version));
  const dataset::SequenceRange range = *weights.ranges(kSequences)[split_number(options.split)];
  const auto begin = mock->lengths_.begin();
  const GptIndexRequest request{
      .sequences = range.end - range.begin,
      .tokens = std::accumulate(begin + range.begin, begin + range.end, int64_t{0}),
      .longest_sequence = kLongest,
      .samples = options.samples,
      .sequence_length = options.sequence_length,
      .extra_token = options.extra_token,
      .drop_last_partial = options.drop_last_partial,
  };
  MEG_ASSIGN_OR_RETURN(mock->plan_, plan_gpt_index(request, version));
  const dataset::LittleEndianArray<int32_t> lengths(std::as_bytes(std::span(mock->lengths_)));
  MEG_ASSIGN_OR_RETURN(GptIndexCache built,
                       build_gpt_index_in_memory(mock->plan_, lengths, range, options.seed));
  mock->index_ = std::move(built.index);
  mock->eod_ = options.eod;
  mock->tokens_.resize(kLongest);
  // All sequences begin alike, so one array serves them all; only the end of each is its own.
  std::iota(mock->tokens_.begin(), mock->tokens_.end(), int64_t{1});
  if (version.mock_data == megatron::MockData::kModulo) {
    if (options.vocab_size < 1) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: vocabulary size: expected 1 or more, found {}", kName,
                        options.vocab_size);
    }
    for (int64_t& token : mock->tokens_) token %= options.vocab_size;
  }
  return std::unique_ptr<SampleDataset>(std::move(mock));
}

void LengthsMockDataset::copy_tokens(const SamplePart& part, std::span<int64_t> out) const {
  const int64_t end_of_document = lengths_[static_cast<size_t>(part.sequence)] - 1;
  std::copy_n(tokens_.begin() + part.offset, part.length, out.begin());
  if (part.offset + part.length > end_of_document && part.length > 0) {
    out[static_cast<size_t>(part.length) - 1] = eod_;
  }
}

Status LengthsMockDataset::text(int64_t sample, int64_t pad, std::span<int64_t> out) const {
  auto left = out.first(static_cast<size_t>(text_length()));
  MEG_RETURN_IF_ERROR(walk(sample, [&](const SamplePart& part) -> Status {
    copy_tokens(part, left);
    left = left.subspan(static_cast<size_t>(part.length));
    return Status();
  }));
  std::fill(left.begin(), left.end(), pad);
  return Status();
}

Result<SampleSource> LengthsMockDataset::source(int64_t sample) const {
  SampleSource source;
  MEG_RETURN_IF_ERROR(walk(sample, [&](const SamplePart& part) -> Status {
    source.parts.push_back(part);
    return Status();
  }));
  return source;
}

}  // namespace

Result<std::unique_ptr<SampleDataset>> make_mock_gpt_dataset(
    const MockGptOptions& options, const megatron::MegatronVersion& version) {
  constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max() - 1;
  if (options.sequence_length < 1 || options.sequence_length > kMaxTokens) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: sequence length: expected 1 to {}, found {}", kName, kMaxTokens,
                      options.sequence_length);
  }
  switch (version.mock_data) {
    case megatron::MockData::kPadded:
      return std::unique_ptr<SampleDataset>(std::make_unique<PaddedMockDataset>(options));
    case megatron::MockData::kLengths:
    case megatron::MockData::kModulo:
      return LengthsMockDataset::create(options, version);
    case megatron::MockData::kNone:
      break;
  }
  return make_error(StatusCode::kUnsupported, "{}: {} has none", kName, version.name);
}

}  // namespace meg::samples
