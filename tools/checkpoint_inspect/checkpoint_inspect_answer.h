#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/inspect/checkpoint_statistics.h"
#include "libmeg/checkpoint/inspect/checkpoint_summary.h"

namespace meg::tools {

/// What checkpoint_inspect was requested besides the summary.
struct AnswerParts {
  bool tensors = false;
  bool args = false;
  bool placement = false;  ///< Where every parameter of a whole model lies.
  /// Names to show of tensors; empty: all.
  std::function<bool(std::string_view)> wanted;
};

/// Everything about a checkpoint as the object that --json prints; text and page are made from it.
/// docs/checkpoint_inspect.md lists the fields.
nlohmann::ordered_json answer_of(const checkpoint::CheckpointSummary& summary,
                                 const AnswerParts& parts);

/// The fields `statistics`, `nan` and `infinite`.
void add_statistics(const std::vector<checkpoint::NamedStatistics>& statistics,
                    nlohmann::ordered_json& answer);

}  // namespace meg::tools
