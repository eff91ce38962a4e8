#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/megatron/megatron_version.h"

namespace meg::samples {

/// The parts of a dataset, in Megatron's order.
enum class Split { kTrain, kValid, kTest };

inline constexpr std::array<Split, 3> kSplits = {Split::kTrain, Split::kValid, Split::kTest};

/// One value for each split.
template <class T>
using PerSplit = std::array<T, 3>;

constexpr size_t split_number(Split split) { return static_cast<size_t>(split); }

/// Its name in file names and descriptions: "train", "valid", "test".
std::string_view split_name(Split split);

/// The weights of --split, such as "949,50,1", and the ranges of sequences they give.
/// Mirrors Megatron-LM megatron/core/datasets/blended_megatron_dataset_config.py:
/// parse_and_normalize_split, and megatron/data/dataset_utils.py: get_train_valid_test_split_.
class SplitWeights {
 public:
  /// kInvalidArgument: no number, more than three weights (core), a sum of 0.
  static Result<SplitWeights> parse(std::string_view text,
                                    const megatron::MegatronVersion& version);

  /// Returns the text as given, for descriptions.
  const std::string& text() const { return text_; }

  /// Sums to 1 up to rounding.
  const PerSplit<double>& normalized() const { return normalized_; }

  /// Where each split begins and ends, from 0 to 1; nullopt for an empty split. Its first number is
  /// Python's integer 0.
  PerSplit<std::optional<std::pair<double, double>>> matrix() const;

  /// The sequences of each split of a dataset with `sequences` of them. nullopt: no dataset for
  /// this split; a range may be empty too.
  PerSplit<std::optional<dataset::SequenceRange>> ranges(int64_t sequences) const;

 private:
  std::string text_;
  PerSplit<double> normalized_ = {};
  megatron::SplitArithmetic arithmetic_ = megatron::SplitArithmetic::kCumulative;
};

}  // namespace meg::samples
