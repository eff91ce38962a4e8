#include "libmeg/samples/blend.h"

#include <cmath>
#include <numeric>

#include "libmeg/dataset/index_format.h"
#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

namespace meg::samples {
namespace {

/// Doubles count samples exactly up to here.
constexpr double kMostSamples = 0x1p53;

/// numpy.sum of doubles: eight running sums below a block, halves above it. The last bit of the sum
/// is in every normalized weight, and so in descriptions and draws.
double pairwise_sum(std::span<const double> values) {
  constexpr size_t kLanes = 8;
  constexpr size_t kBlock = 128;
  const size_t count = values.size();
  if (count < kLanes) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (count > kBlock) {
    const size_t half = count / 2 - count / 2 % kLanes;
    return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
  }
  double lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = values[i];
  size_t next = kLanes;
  for (; next + kLanes <= count; next += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] += values[next + i];
  }
  double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
               ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (; next < count; ++next) sum += values[next];
  return sum;
}

std::vector<double> divided(std::span<const double> weights, double sum) {
  std::vector<double> normalized(weights.begin(), weights.end());
  for (double& weight : normalized) weight /= sum;
  return normalized;
}

Status check_weights(std::span<const double> weights, const megatron::MegatronVersion& version) {
  double sum = 0;
  for (const double weight : weights) {
    // Since core 0.7 Megatron asserts it of each weight; before, a dataset of weight 0 is merely
    // never drawn from.
    if (weight < 0 || (weight == 0 && version.open_sample_counts)) {
      return make_error(StatusCode::kInvalidArgument,
                        "`data_path`: expected weights above 0, found {}",
                        text::python_float_text(weight));
    }
    sum += weight;
  }
  if (sum > 0 && std::isfinite(sum)) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "`data_path`: expected weights with a finite sum above 0, found {}",
                    text::python_float_text(sum));
}

/// The names of index caches are made of it: one dataset has one prefix, however it is named.
std::string prefix_of(std::string_view word) {
  return dataset::dataset_prefix(text::trimmed(word));
}

Status not_in_pairs(std::span<const std::string> data_path, size_t place) {
  return make_error(
      StatusCode::kInvalidArgument,
      "`data_path`: expected a weight before each prefix or before none, found {} as argument {}",
      text::printable(data_path[place]), place + 1);
}

}  // namespace

Result<Blend> parse_blend(std::span<const std::string> data_path,
                          const megatron::MegatronVersion& version) {
  Blend blend;
  if (data_path.empty()) {
    return Status(StatusCode::kInvalidArgument, "`data_path`: expected a dataset, found nothing");
  }
  const bool weighted =
      // Decide as Megatron does: an even number of words whose first is a number are weights and
      // prefixes. A single prefix that looks like a number is a prefix.
      data_path.size() % 2 == 0 && text::parse_python_float(data_path[0]).has_value();
  if (!weighted) {
    // Several prefixes without weights are blended by their sizes since core 0.7; before, words
    // come in pairs.
    if (data_path.size() > 1 && !version.open_sample_counts) return not_in_pairs(data_path, 0);
    for (size_t i = 0; i < data_path.size(); ++i) {
      // A number where Megatron's pairing would have a weight is a slip of the user rather than a
      // dataset of that name.
      const bool even = data_path.size() % 2 == 0;
      if (even && i % 2 == 0 && text::parse_python_float(data_path[i]).has_value()) {
        return not_in_pairs(data_path, i);
      }
      blend.prefixes.push_back(prefix_of(data_path[i]));
    }
    return blend;
  }
  blend.weights.emplace();
  for (size_t i = 0; i < data_path.size(); i += 2) {
    const std::optional<double> weight = text::parse_python_float(data_path[i]);
    if (!weight.has_value()) return not_in_pairs(data_path, i);
    blend.weights->push_back(*weight);
    blend.prefixes.push_back(prefix_of(data_path[i + 1]));
  }
  MEG_RETURN_IF_ERROR(check_weights(*blend.weights, version));
  return blend;
}

std::vector<double> normalized_weights(std::span<const double> weights) {
  return divided(weights, pairwise_sum(weights));
}

std::vector<double> normalized_data_path_weights(std::span<const double> weights,
                                                 const megatron::MegatronVersion& version) {
  // numpy's sum since core; before, weights were added from left to right. The last bits differ.
  if (version.index_cache_form > megatron::IndexCacheForm::kLegacy)
    return normalized_weights(weights);
  return divided(weights, std::accumulate(weights.begin(), weights.end(), 0.0));
}

Result<std::vector<BlendPart>> blend_parts(std::span<const double> weights, int64_t samples,
                                           double surplus,
                                           const megatron::MegatronVersion& version) {
  const double margin = 1 + surplus;
  std::vector<BlendPart> parts;
  for (const double weight : weights) {
    const double share = static_cast<double>(samples) * weight;
    // The margin is for the datasets to build; since core 0.11 the blend's size is without it.
    const bool on_top = version.blend_margin == megatron::BlendMargin::kOnTop;
    const double used = std::ceil(on_top ? share : share * margin);
    const double built = on_top ? std::ceil(used * margin) : used;
    if (!(built < kMostSamples)) {
      return make_error(StatusCode::kInvalidArgument,
                        "`mid_level_dataset_surplus`: expected fewer than {:.0f} samples of a "
                        "dataset, found {:.0f} with {}",
                        kMostSamples, built, surplus);
    }
    parts.push_back({.built = static_cast<int64_t>(built), .used = static_cast<int64_t>(used)});
  }
  return parts;
}

}  // namespace meg::samples
