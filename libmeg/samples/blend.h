#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"

namespace meg::samples {

/// The value of --data-path: datasets, and how often each is sampled.
struct Blend {
  std::vector<std::string> prefixes;           ///< At least one.
  std::optional<std::vector<double>> weights;  ///< As given, one for each prefix.

  /// Whether there is one dataset without a weight, so that nothing is blended.
  bool single() const { return prefixes.size() == 1 && !weights.has_value(); }
};

/// `PREFIX`, `WEIGHT PREFIX WEIGHT PREFIX ...` or `PREFIX PREFIX ...` (Megatron core since 0.7).
/// kInvalidArgument if weights do not parse, are not positive, or do not alternate with prefixes.
/// Mirrors Megatron-LM megatron/core/datasets/utils.py: get_blend_from_list.
Result<Blend> parse_blend(std::span<const std::string> data_path,
                          const megatron::MegatronVersion& version);

/// The weights divided by their sum, which is added in numpy's pairwise order.
std::vector<double> normalized_weights(std::span<const double> weights);

/// The same with the sum by which the weights of --data-path are divided first: before Megatron
/// core it was added weight after weight.
std::vector<double> normalized_data_path_weights(std::span<const double> weights,
                                                 const megatron::MegatronVersion& version);

/// The number of samples that a blend plans for each dataset: `built` are requested from the
/// dataset, `used` add up to the blend's size.
struct BlendPart {
  int64_t built = 0;
  int64_t used = 0;
};

/// Megatron asks each dataset of a blend for half a percent more than its share, as the blend's
/// rounding may draw a little more from one of them.
inline constexpr double kMidLevelDatasetSurplus = 0.005;

/// weights: normalized. samples: requested from the whole blend. surplus:
/// --mid-level-dataset-surplus; its default before BlendMargin::kOnTop. kInvalidArgument where a
/// part would have too many samples.
Result<std::vector<BlendPart>> blend_parts(std::span<const double> weights, int64_t samples,
                                           double surplus,
                                           const megatron::MegatronVersion& version);

}  // namespace meg::samples
