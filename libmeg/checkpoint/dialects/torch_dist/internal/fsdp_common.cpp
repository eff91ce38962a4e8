#include "libmeg/checkpoint/dialects/torch_dist/internal/fsdp_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_optimizer.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/fsdp_names.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

/// Dicts and lists inside each other: what Megatron saves has fewer than ten.
constexpr size_t kMaxCommonNesting = 32;
/// A setting of a group is a number, a word or a pair of numbers.
constexpr uint64_t kMaxSettingBytes = uint64_t{1} << 16;
constexpr const char* kOptimizer = "optimizer";
constexpr std::string_view kStepSuffix = ".step";
/// State of modules of Transformer Engine, which Megatron-FSDP's runs rebuild.
constexpr std::string_view kExtraStateSuffix = "._extra_state";

/// Objects nested by the parts of their names, in the order in which they are found.
struct Nested {
  std::string name;
  const DistObject* object = nullptr;
  std::vector<Nested> children = {};

  Nested& child(std::string_view part) {
    const auto known = std::find_if(children.begin(), children.end(),
                                    [&](const Nested& one) { return one.name == part; });
    if (known != children.end()) return *known;
    children.push_back({.name = std::string(part)});
    return children.back();
  }

  /// Whether the names are 0, 1, 2 ..., as a list's.
  bool is_list() const {
    for (size_t i = 0; i < children.size(); ++i) {
      if (children[i].name != std::to_string(i)) return false;
    }
    return true;
  }
};

/// The settings of one parameter's group by name: each rank saved some of them, in its own order.
using Settings = std::map<std::string, const DistObject*>;

class CommonReader {
 public:
  CommonReader(const DistFolder& folder, const model::ParameterTable& table)
      : folder_(folder), table_(table) {}

  Result<std::shared_ptr<const TorchFile>> read() {
    for (const DistObject& object : folder_.metadata().objects) MEG_RETURN_IF_ERROR(sort(object));
    MEG_RETURN_IF_ERROR(check_optimizer());
    MEG_ASSIGN_OR_RETURN(draft_.content().root, add(root_));
    PickleGraph& graph = draft_.graph();
    if (!settings_.empty()) {
      MEG_ASSIGN_OR_RETURN(const PickleId optimizer, add_optimizer());
      const PickleId key = graph.add_string(kOptimizer);
      std::vector<PickleId>& pairs = graph.mutable_node(draft_.content().root).children;
      pairs.insert(pairs.end(), {key, optimizer});
    }
    MEG_ASSIGN_OR_RETURN(TorchFile file, draft_.finish(folder_.path(), folder_.bytes()));
    return std::make_shared<const TorchFile>(std::move(file));
  }

 private:
  template <class... Args>
  Status refuse(StatusCode code, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, "{}: {}", folder_.path(),
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Status sort(const DistObject& object) {
    const std::string_view name = object.name;
    if (name.starts_with(kFsdpSettingPrefix)) {
      const size_t dot = name.rfind('.');
      const auto parameter = without_wrappers(
          name.substr(kFsdpSettingPrefix.size(),
                      std::max(dot, kFsdpSettingPrefix.size()) - kFsdpSettingPrefix.size()));
      settings_[std::string(parameter)].emplace(name.substr(dot + 1), &object);
      return {};
    }
    if (name.starts_with(kDistStatePrefix) && name.ends_with(kStepSuffix)) {
      steps_.push_back(&object);
      return {};
    }
    if (name.starts_with(kFsdpModelPrefix) && name.ends_with(kExtraStateSuffix)) return {};
    if (name.starts_with(kFsdpModelPrefix) || name.starts_with(kDistStatePrefix)) {
      return refuse(StatusCode::kUnsupported, "{}: expected a tensor, found an object",
                    text::printable(name, 200));
    }
    Nested* place = &root_;
    size_t begin = 0;
    for (size_t depth = 0; begin <= name.size(); ++depth) {
      if (depth == kMaxCommonNesting) {
        return refuse(StatusCode::kCorruption, "{}: expected a name of at most {} parts",
                      text::printable(name, 200), depth);
      }
      const size_t end = std::min(name.find('.', begin), name.size());
      place = &place->child(name.substr(begin, end - begin));
      begin = end + 1;
    }
    place->object = &object;
    return {};
  }

  /// State without settings would be left out, and so would what settings leave no place for.
  Status check_optimizer() const {
    const auto found = std::find_if(root_.children.begin(), root_.children.end(),
                                    [](const Nested& one) { return one.name == kOptimizer; });
    const bool has_others = found != root_.children.end();
    if (has_others && !settings_.empty()) {
      const std::string name = found->children.empty() ? "" : "." + found->children[0].name;
      return refuse(StatusCode::kUnsupported,
                    "{}: expected state and param_to_group_meta of the optimizer alone",
                    text::printable(kOptimizer + name, 200));
    }
    const std::vector<DistTensor>& tensors = folder_.metadata().tensors;
    const auto state = std::find_if(tensors.begin(), tensors.end(), [](const DistTensor& tensor) {
      return tensor.name.starts_with(kDistStatePrefix);
    });
    if (state == tensors.end() || has_others || !settings_.empty()) return {};
    return refuse(StatusCode::kCorruption,
                  "optimizer: expected param_to_group_meta beside its state, found none");
  }

  Result<PickleId> add(const Nested& nested) {
    PickleGraph& graph = draft_.graph();
    if (nested.object != nullptr) return copy_dist_value(folder_, *nested.object, &draft_);
    const bool is_list = nested.is_list() && !nested.children.empty();
    std::vector<PickleId> children;
    for (const Nested& child : nested.children) {
      if (!is_list) children.push_back(graph.add_string(child.name));
      MEG_ASSIGN_OR_RETURN(const PickleId value, add(child));
      children.push_back(value);
    }
    return is_list ? graph.add_list(std::move(children)) : graph.add_dict(std::move(children));
  }

  Result<PickleId> add_optimizer() {
    PickleGraph& graph = draft_.graph();
    MEG_ASSIGN_OR_RETURN(const PickleId groups, add_groups());
    std::vector<PickleId> pairs = {graph.add_string("param_groups"), groups};
    if (!steps_.empty()) {
      MEG_RETURN_IF_ERROR(check_steps());
      MEG_ASSIGN_OR_RETURN(const PickleId step, copy_dist_value(folder_, *steps_[0], &draft_));
      const PickleId state = graph.add_dict({graph.add_string("common_step"), step});
      pairs.insert(pairs.end(), {graph.add_string("state"), state});
    }
    return graph.add_dict(std::move(pairs));
  }

  /// Parameters with the same settings make up a group.
  Result<PickleId> add_groups() {
    PickleGraph& graph = draft_.graph();
    std::map<std::vector<std::string>, size_t> numbers;
    std::vector<PickleId> groups;
    std::vector<size_t> group_of;
    for (const auto& [parameter, settings] : settings_) {
      std::vector<std::string> values;
      for (const auto& [name, object] : settings) {
        MEG_ASSIGN_OR_RETURN(std::string bytes, bytes_of(*object));
        values.push_back(name);
        values.push_back(std::move(bytes));
      }
      const auto [known, is_new] = numbers.emplace(std::move(values), groups.size());
      group_of.push_back(known->second);
      if (!is_new) continue;
      std::vector<PickleId> pairs;
      for (const auto& [name, object] : settings) {
        MEG_ASSIGN_OR_RETURN(const PickleId value, copy_dist_value(folder_, *object, &draft_));
        pairs.insert(pairs.end(), {graph.add_string(name), value});
      }
      groups.push_back(graph.add_dict(std::move(pairs)));
    }
    const std::vector<ParamGroupKind> kinds = param_group_kinds(graph, groups);
    MEG_RETURN_IF_ERROR(check_members(kinds, group_of));
    // The folder does not say their order: core's of today.
    std::vector<std::pair<ParamGroupKind, PickleId>> ordered;
    for (size_t i = 0; i < groups.size(); ++i) ordered.emplace_back(kinds[i], groups[i]);
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = ordered[i].second;
    return graph.add_list(std::move(groups));
  }

  /// Readers deal parameters out by Megatron's rule; here each says where it was.
  Status check_members(const std::vector<ParamGroupKind>& kinds,
                       const std::vector<size_t>& group_of) const {
    const bool has_decoupled =
        std::find(kinds.begin(), kinds.end(), ParamGroupKind::kDecoupled) != kinds.end();
    std::map<std::string_view, const DistTensor*> tensors;
    for (const DistTensor& tensor : folder_.metadata().tensors) tensors[tensor.name] = &tensor;
    size_t number = 0;
    for (const auto& [parameter, settings] : settings_) {
      const ParamGroupKind found = kinds[group_of[number++]];
      const auto tensor = tensors.find(parameter);
      const std::string shown = text::printable(parameter, 200);
      if (tensor == tensors.end()) {
        return refuse(StatusCode::kCorruption,
                      "optimizer: param_to_group_meta: {}: expected a parameter of this name, "
                      "found none",
                      shown);
      }
      const auto match = table_.match(parameter);
      TensorView weight;
      weight.shape = tensor->second->shape;
      const OptimizedParameter seen{
          .flat_name = parameter,
          .weight = &weight,
          .is_embedding_or_output =
              match.has_value() && match->partition == model::Partition::kVocabulary};
      // Whether norms of queries and keys decay is for the groups to say.
      if (found == param_group_for(seen, has_decoupled, false) ||
          found == param_group_for(seen, has_decoupled, true)) {
        continue;
      }
      const std::string expected(param_group_text(param_group_for(seen, has_decoupled, false)));
      const std::string text(param_group_text(found));
      return refuse(StatusCode::kUnsupported,
                    "optimizer: param_to_group_meta: {}: expected a group {}, found one {}", shown,
                    expected, text);
    }
    return {};
  }

  /// torch's Adam counts for each parameter; Megatron steps them all at once.
  Status check_steps() const {
    MEG_ASSIGN_OR_RETURN(const std::string first, bytes_of(*steps_[0]));
    for (const DistObject* step : steps_) {
      MEG_ASSIGN_OR_RETURN(const std::string bytes, bytes_of(*step));
      if (bytes == first) continue;
      return refuse(StatusCode::kCorruption, "{}: expected the step of {}, found another",
                    text::printable(step->name, 200), text::printable(steps_[0]->name, 200));
    }
    return {};
  }

  /// What torch.save wrote; the same for equal values of one run.
  Result<std::string> bytes_of(const DistObject& object) const {
    const uint64_t length = object.blob.length;
    if (length > kMaxSettingBytes) {
      return refuse(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                    text::printable(object.name, 200), kMaxSettingBytes, length);
    }
    std::string bytes(static_cast<size_t>(length), '\0');
    const io::PooledFile& file = *folder_.files()[static_cast<size_t>(object.blob.file)];
    MEG_RETURN_IF_ERROR(
        file.read_exactly_at(object.blob.offset, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  const DistFolder& folder_;
  const model::ParameterTable& table_;
  RankDraft draft_;
  Nested root_;
  std::map<std::string, Settings> settings_;  // by parameter
  std::vector<const DistObject*> steps_;
};

}  // namespace

Result<std::shared_ptr<const TorchFile>> fsdp_common(const DistFolder& folder,
                                                     const model::ParameterTable& table) {
  return CommonReader(folder, table).read();
}

}  // namespace meg::checkpoint
