#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace meg::checkpoint {
namespace {

constexpr const char* kKey = "rng_state";

using Entries = std::vector<std::pair<std::string, PickleId>>;

/// Descends into lists and dicts, so that the kind of container does not matter.
void add(const TorchFile& file, const std::string& name, PickleId id, Entries* entries) {
  const PickleGraph& graph = file.graph();
  const PickleKind kind = graph.node(id).kind;
  if (kind == PickleKind::kDict) {
    const std::span<const PickleId> pairs = graph.pairs(id);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> key = graph.as_string(pairs[i]);
      if (key.has_value()) add(file, fmt::format("{}.{}", name, *key), pairs[i + 1], entries);
    }
  } else if (kind == PickleKind::kList) {
    const std::vector<PickleId>& children = graph.node(id).children;
    for (size_t i = 0; i < children.size(); ++i) {
      add(file, fmt::format("{}[{}]", name, i), children[i], entries);
    }
  } else {
    entries->emplace_back(name, id);
  }
}

}  // namespace

bool is_rng_key(std::string_view key) {
  constexpr std::array<std::string_view, 6> kKeys = {
      kKey,
      "random_rng_state",
      "np_rng_state",
      "torch_rng_state",
      "cuda_rng_state",
      "rng_tracker_states",
  };
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

Entries rng_entries(const TorchFile& file) {
  Entries entries;
  const std::span<const PickleId> pairs = file.graph().pairs(file.root());
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<std::string_view> key = file.graph().as_string(pairs[i]);
    if (!key.has_value() || !is_rng_key(*key)) continue;
    const std::string name = *key == kKey ? kKey : fmt::format("{}[0].{}", kKey, *key);
    add(file, name, pairs[i + 1], &entries);
  }
  return entries;
}

}  // namespace meg::checkpoint
