#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"

#include <fmt/format.h>

#include <optional>

namespace meg::checkpoint {
namespace {

constexpr std::string_view kModel = "model";
constexpr std::string_view kDeepSpeedModel = "module";

}  // namespace

bool is_model_key(std::string_view key) {
  if (key == kDeepSpeedModel) return true;
  return key.starts_with(kModel) &&
         key.find_first_not_of("0123456789", kModel.size()) == std::string_view::npos;
}

ModelDicts find_model_dicts(const TorchFile& file) {
  const PickleGraph& graph = file.graph();
  for (const std::string_view key : {kModel, kDeepSpeedModel}) {
    if (const std::optional<PickleId> dict = graph.find(file.root(), key)) {
      return {.dicts = {*dict}, .is_chunked = false};
    }
  }
  ModelDicts found{.dicts = {}, .is_chunked = true};
  while (const auto chunk =
             graph.find(file.root(), fmt::format("{}{}", kModel, found.dicts.size()))) {
    found.dicts.push_back(*chunk);
  }
  return found;
}

}  // namespace meg::checkpoint
