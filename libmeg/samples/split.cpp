#include "libmeg/samples/split.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"

namespace meg::samples {
namespace {

Status unusable(std::string_view text, std::string_view expected) {
  return make_error(StatusCode::kInvalidArgument, "`split`: expected {}, found {}", expected,
                    text::printable(text));
}

/// `949,50,1`, or `8/1/1` where there is no comma.
std::vector<std::string_view> separated(std::string_view text) {
  const char separator = text.find(',') == std::string_view::npos ? '/' : ',';
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Every run of digits and dots.
std::vector<std::string_view> runs(std::string_view text) {
  constexpr std::string_view kRun = ".0123456789";
  std::vector<std::string_view> parts;
  size_t begin = text.find_first_of(kRun);
  while (begin != std::string_view::npos) {
    const size_t end = std::min(text.find_first_not_of(kRun, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = text.find_first_of(kRun, end);
  }
  return parts;
}

/// Python's int(round()): halves to the even number, which std::round would not do.
int64_t rounded(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

}  // namespace

std::string_view split_name(Split split) {
  constexpr PerSplit<std::string_view> kNames = {"train", "valid", "test"};
  return kNames[split_number(split)];
}

Result<SplitWeights> SplitWeights::parse(std::string_view text,
                                         const megatron::MegatronVersion& version) {
  SplitWeights weights;
  weights.text_ = text;
  weights.arithmetic_ = version.split_arithmetic;
  const bool legacy = version.split_arithmetic == megatron::SplitArithmetic::kLegacy;
  const std::vector<std::string_view> parts = legacy ? separated(text) : runs(text);
  if (parts.empty() || (!legacy && parts.size() > kSplits.size())) {
    return unusable(text, "one to three weights, such as 969,30,1");
  }
  // Before core the first three of more are taken; later revisions refuse them.
  for (size_t i = 0; i < std::min(parts.size(), kSplits.size()); ++i) {
    const std::optional<double> weight = text::parse_python_float(parts[i]);
    if (!weight.has_value() || *weight < 0) {
      return unusable(text, "weights that are numbers of at least 0");
    }
    weights.normalized_[i] = *weight;
  }
  const double sum = std::accumulate(weights.normalized_.begin(), weights.normalized_.end(), 0.0);
  if (sum <= 0) return unusable(text, "weights with a sum above 0");
  for (double& weight : weights.normalized_) weight /= sum;
  return weights;
}

PerSplit<std::optional<std::pair<double, double>>> SplitWeights::matrix() const {
  PerSplit<std::optional<std::pair<double, double>>> matrix;
  double begin = 0;
  for (const Split split : kSplits) {
    // Add in float64 and in this order: the sums stand in descriptions, to the last digit.
    const double end = begin + normalized_[split_number(split)];
    if (end > begin) matrix[split_number(split)] = {begin, end};
    begin = end;
  }
  return matrix;
}

PerSplit<std::optional<dataset::SequenceRange>> SplitWeights::ranges(int64_t sequences) const {
  const auto size = static_cast<double>(sequences);
  PerSplit<std::optional<dataset::SequenceRange>> ranges;
  if (arithmetic_ == megatron::SplitArithmetic::kCumulative) {
    const auto bounds = matrix();
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (!bounds[i].has_value()) continue;
      // Both bounds of one fraction are rounded alike, so neighbours meet without a gap.
      ranges[i] = {.begin = rounded(bounds[i]->first * size),
                   .end = rounded(bounds[i]->second * size)};
    }
    return ranges;
  }
  PerSplit<int64_t> ends = {};
  int64_t end = 0;
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = end += rounded(normalized_[i] * size);
  // Rounding each size alone may make one sequence too many or too few; Megatron moves every end by
  // that.
  for (int64_t& bound : ends) bound -= end - sequences;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const dataset::SequenceRange range = {.begin = i == 0 ? 0 : std::max<int64_t>(ends[i - 1], 0),
                                          .end = std::max<int64_t>(ends[i], 0)};
    // Core 0.4 makes a dataset of every split with a weight, also where rounding leaves it no
    // document.
    const bool present = arithmetic_ == megatron::SplitArithmetic::kLegacy ? range.end > range.begin
                                                                           : normalized_[i] > 0;
    if (present) ranges[i] = range;
  }
  return ranges;
}

}  // namespace meg::samples
