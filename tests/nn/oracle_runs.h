#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/model/parameter_table.h"
#include "tests/shared_data.h"

namespace meg::test {

inline constexpr int64_t kEndOfText = 289;  ///< Of the oracle's vocabulary.

inline std::string run_path(const std::string& name) {
  return shared_path("oracle/training/" + name);
}

/// log.json of a training run of the real Megatron. Python writes numbers that JSON has not: they
/// become null.
inline nlohmann::json read_log(const std::string& run) {
  std::ifstream file(run_path(run) + "/log.json");
  std::stringstream text;
  text << file.rdbuf();
  const std::string plain =
      std::regex_replace(text.str(), std::regex("-?\\b(Infinity|NaN)\\b"), "null");
  nlohmann::json log = nlohmann::json::parse(plain, nullptr, false);
  EXPECT_FALSE(log.is_discarded()) << run;
  return log;
}

/// The micro-batches of an iteration (0 or 1): [2, s + 1] each.
inline std::vector<at::Tensor> micro_batches(const nlohmann::json& log, size_t iteration) {
  const auto windows =
      log["first_batches"][0]["windows"].get<std::vector<std::vector<std::vector<int64_t>>>>();
  const size_t count = windows.size() / 2;
  std::vector<at::Tensor> batches;
  for (size_t i = iteration * count; i < (iteration + 1) * count; ++i) {
    std::vector<at::Tensor> rows;
    for (const std::vector<int64_t>& window : windows[i]) rows.push_back(at::tensor(window));
    batches.push_back(at::stack(rows));
  }
  return batches;
}

/// grad_norm_by_param of an iteration's entry, by canonical name.
inline std::map<std::string, double> gradient_norms(const nlohmann::json& entry) {
  const Result<model::ParameterTable> table = model::ParameterTable::gpt();
  std::map<std::string, double> norms;
  nlohmann::json by_name = entry["grad_norm_by_param"];
  if (by_name.is_array()) by_name = by_name[0];
  for (const auto& [name, norm] : by_name.items()) {
    const auto match = table->match(name);
    if (!match.has_value()) {
      ADD_FAILURE() << name;
      continue;
    }
    norms[model::with_layer(match->canonical, match->layer.value_or(0))] = norm.get<double>();
  }
  return norms;
}

}  // namespace meg::test
