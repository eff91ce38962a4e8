#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/model/foreign_models.h"
#include "libmeg/text/printable.h"

// Sorts out a folder by the names of its items alone. Megatron saves the layers of a model as one
// tensor, stacked in front of the parameter's dimensions ("decoder.layers.mlp...": no number), and
// with some settings layer by layer; experts likewise. Either becomes parameters of single layers,
// named as the table of parameters knows them.

namespace meg::checkpoint {
namespace {

/// More than any model has are refused before anything is listed by them.
constexpr int64_t kMaxLayers = int64_t{1} << 20;
constexpr std::string_view kLayers = "decoder.layers.";
constexpr std::string_view kFirstMlpMatrix = "linear_fc1.";
constexpr std::string_view kSecondMlpMatrix = "linear_fc2.weight";
/// The part of a name after which experts follow, all in one tensor or each with its number.
constexpr std::string_view kExperts = ".mlp.experts.experts.";
constexpr std::string_view kChained = "chained_";
constexpr std::string_view kLocalExperts = ".mlp.experts.local_experts.";

/// Checkpoints of torch alone have the nesting of the whole state dict in their names.
constexpr std::string_view kNestedModel = "model.";

/// A name of stacked layers with a number in it, so that the table knows it; else the name.
std::string with_number(std::string_view name) {
  const bool is_stacked = name.starts_with(kLayers) && name.size() > kLayers.size() &&
                          (name[kLayers.size()] < '0' || name[kLayers.size()] > '9');
  if (!is_stacked) return std::string(name);
  return std::string(kLayers) + "0." + std::string(name.substr(kLayers.size()));
}

/// The name of the first of stacked experts, as the table knows it; nullopt where it is of none.
std::optional<std::string> with_expert_number(const std::string& name) {
  const size_t at = name.find(kExperts);
  const size_t rest = at + kExperts.size();
  if (at == name.npos || (rest < name.size() && name[rest] >= '0' && name[rest] <= '9')) {
    return std::nullopt;
  }
  return name.substr(0, at) + std::string(kLocalExperts) + "0." + name.substr(rest);
}

/// The name of an expert that has a tensor for itself, as the table knows it; other names stay.
std::string single_expert(std::string name) {
  const size_t at = name.find(kExperts);
  if (at != name.npos) name.replace(at, kExperts.size(), kLocalExperts);
  return name;
}

std::optional<std::vector<int64_t>> parse_numbers(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return numbers;
    if (text.front() != '.') return std::nullopt;
    text.remove_prefix(1);
  }
}

class ModelReader {
 public:
  ModelReader(const DistFolder& folder, const model::ParameterTable& table, bool is_hybrid)
      : folder_(folder), table_(table), is_hybrid_(is_hybrid) {}

  Result<DistModel> read() {
    // States are handled later, because the parameter that they belong to may follow them.
    for (const DistTensor& tensor : folder_.metadata().tensors) {
      MEG_RETURN_IF_ERROR(add_tensor(tensor));
    }
    for (const DistTensor* tensor : states_) MEG_RETURN_IF_ERROR(add_state(*tensor));
    MEG_RETURN_IF_ERROR(count_layers());
    find_gated();
    for (const DistObject& object : folder_.metadata().objects) {
      MEG_RETURN_IF_ERROR(add_object(object));
    }
    return std::move(found_);
  }

 private:
  template <class... Args>
  Status refuse(StatusCode code, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, "{}: {}", folder_.path(),
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Status add_tensor(const DistTensor& tensor) {
    const std::string_view unchained = without_chain_prefix(tensor.name);
    if (unchained.starts_with(kDistStatePrefix)) {
      states_.push_back(&tensor);
      return {};
    }
    if (unchained.starts_with(kDistBufferPrefix)) {
      found_.has_buckets = true;
      return {};
    }
    const std::string numbered = with_number(tensor.name);
    const bool is_stacked = numbered != tensor.name;
    const std::string shown = text::printable(tensor.name, 200);
    // A tensor without elements has no layer to take.
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) {
      return refuse(StatusCode::kCorruption, "{}: expected elements, found shape {}", shown,
                    shape_text(tensor.shape));
    }
    if (is_stacked && tensor.shape.empty()) {
      return refuse(StatusCode::kCorruption, "{}: expected a dimension of layers, found a scalar",
                    shown);
    }
    const std::optional<std::string> of_experts = with_expert_number(numbered);
    if (!of_experts.has_value())
      return add_parameter(tensor, single_expert(numbered), is_stacked, {});
    const size_t dimension = is_stacked ? 1 : 0;
    const int64_t experts = dimension < tensor.shape.size() ? tensor.shape[dimension] : 0;
    // Check before anything is listed by the number of experts, which the file claims.
    if (experts < 1 || experts > model::kMostExperts) {
      return refuse(StatusCode::kCorruption, "{}: expected a dimension of experts, found shape {}",
                    shown, shape_text(tensor.shape));
    }
    for (int64_t expert = 0; expert < experts; ++expert) {
      const std::optional<model::ExpertName> name = model::parse_expert_name(*of_experts);
      MEG_RETURN_IF_ERROR(
          add_parameter(tensor, name.has_value() ? model::with_expert(*name, expert) : *of_experts,
                        is_stacked, expert));
    }
    return {};
  }

  /// flat_name: as the table knows it.
  Status add_parameter(const DistTensor& tensor, const std::string& flat_name, bool is_stacked,
                       std::optional<int64_t> stacked_expert) {
    std::optional<model::ParameterMatch> match = table_.match(flat_name, is_hybrid_);
    const std::string shown = text::printable(tensor.name, 200);
    if (!match.has_value() && tensor.name.starts_with(kNestedModel)) {
      return refuse(
          StatusCode::kUnsupported,
          "{}: expected names of `ckpt_format` torch_dist or fsdp_dtensor, found those of "
          "torch_dcp, which are not supported",
          shown);
    }
    if (!match.has_value()) {
      const auto foreign = model::foreign_parameter({&tensor.name, 1});
      if (!foreign.has_value()) {
        return refuse(StatusCode::kUnsupported, "{}: no rule knows this parameter", shown);
      }
      return refuse(StatusCode::kUnsupported, "{}: expected GPT, found {}, which is not supported",
                    shown, foreign->model);
    }
    if (match->is_expert) {
      return refuse(StatusCode::kUnsupported,
                    "{}: this part of a mixture of experts is not supported", shown);
    }
    // Their values are objects: see add_object().
    if (match->is_extra_state) return {};
    DistParameter parameter;
    parameter.match = *std::move(match);
    parameter.name = tensor.name;
    parameter.weight = &tensor;
    parameter.is_stacked = is_stacked;
    parameter.stacked_expert = stacked_expert;
    // The layer that with_number() inserted represents all layers.
    if (parameter.is_stacked) parameter.match.layer.reset();
    places_.emplace(tensor.name, found_.parameters.size());
    found_.parameters.push_back(std::move(parameter));
    return {};
  }

  Status add_state(const DistTensor& tensor) {
    const std::string_view rest = without_chain_prefix(tensor.name).substr(kDistStatePrefix.size());
    const size_t dot = rest.find('.');
    const auto [first, last] =
        // Several where experts are stacked: they share the tensor, each with its place in it.
        places_.equal_range(dot == rest.npos ? std::string() : std::string(rest.substr(dot + 1)));
    if (first == last) {
      return refuse(StatusCode::kCorruption, "{}: expected a parameter of this name, found none",
                    text::printable(tensor.name, 200));
    }
    for (auto owner = first; owner != last; ++owner) {
      found_.parameters[owner->second].states.emplace_back(rest.substr(0, dot), &tensor);
    }
    return {};
  }

  /// Stacks are as high as each other, single layers are numbered without gaps; both may be there.
  /// Some parameters may be stacked and others numbered, as in models with dense and expert layers.
  Status count_layers() {
    std::set<int64_t> numbers;
    std::optional<int64_t> height;
    for (const DistParameter& parameter : found_.parameters) {
      if (parameter.match.layer.has_value()) numbers.insert(*parameter.match.layer);
      if (!parameter.is_stacked) continue;
      const int64_t found = parameter.weight->shape[0];
      if (height.has_value() && *height != found) {
        return refuse(StatusCode::kCorruption, "{}: expected {} layers as before it, found {}",
                      text::printable(parameter.name, 200), *height, found);
      }
      height = found;
    }
    found_.num_layers = height.value_or(static_cast<int64_t>(numbers.size()));
    if (found_.num_layers > kMaxLayers) {
      return refuse(StatusCode::kResourceExhausted, "expected at most {} layers, found {}",
                    kMaxLayers, found_.num_layers);
    }
    const bool fits =
        numbers.empty() || (*numbers.begin() == 0 && *numbers.rbegin() + 1 == found_.num_layers);
    if (fits) return {};
    return refuse(StatusCode::kCorruption, "expected layers 0 to {}, found {} of them",
                  found_.num_layers - 1, numbers.size());
  }

  /// An MLP is gated where its first matrix has two rows for each column of the second.
  /// Args may call the gate by several names; the shape does not lie.
  void find_gated() {
    std::map<std::pair<std::optional<int64_t>, std::string>, int64_t> columns;
    for (const DistParameter& parameter : found_.parameters) {
      const std::string& name = parameter.match.canonical;
      if (!name.ends_with(kSecondMlpMatrix) || parameter.shape().size() != 2) continue;
      const std::string mlp = name.substr(0, name.size() - kSecondMlpMatrix.size());
      columns[{parameter.match.layer, mlp}] = parameter.shape()[1];
    }
    for (DistParameter& parameter : found_.parameters) {
      const bool is_first = parameter.match.partition == model::Partition::kGated;
      const std::string& name = parameter.match.canonical;
      const auto second =
          columns.find({parameter.match.layer, name.substr(0, name.find(kFirstMlpMatrix))});
      if (!is_first || second == columns.end() || parameter.shape().empty()) continue;
      parameter.is_gated = parameter.shape()[0] == 2 * second->second;
    }
  }

  Status add_object(const DistObject& object) {
    const std::optional<DistShardName> name = parse_shard_name(object.name);
    if (!name.has_value()) return {};
    const std::string numbered = with_number(name->key);
    // Those of experts contain nothing that their modules need.
    if (numbered.find(kExperts) != numbered.npos) return {};
    std::optional<model::ParameterMatch> match = table_.match(numbered, is_hybrid_);
    if (!match.has_value() || !match->is_extra_state) return {};
    if (numbered != name->key) match->layer = name->offsets[0];
    const bool is_inside = !match->layer.has_value() || *match->layer < found_.num_layers;
    if (is_inside) found_.extra_states.push_back({*std::move(match), &object});
    return {};
  }

  const DistFolder& folder_;
  const model::ParameterTable& table_;
  bool is_hybrid_;
  DistModel found_;
  std::multimap<std::string, size_t> places_;  // several for stacked experts
  std::vector<const DistTensor*> states_;
};

}  // namespace

std::string dist_chain_prefix(size_t optimizer) {
  return fmt::format("{}{}.", kChained, optimizer);
}

std::string_view without_chain_prefix(std::string_view name) {
  if (!name.starts_with(kChained)) return name;
  const size_t dot = name.find_first_not_of("0123456789", kChained.size());
  const bool is_prefix = dot != name.npos && dot > kChained.size() && name[dot] == '.';
  return is_prefix ? name.substr(dot + 1) : name;
}

std::optional<DistShardName> parse_shard_name(std::string_view name) {
  constexpr std::string_view kShard = "/shard_";
  const size_t slash = name.rfind(kShard);
  if (slash == name.npos) return std::nullopt;
  const std::string_view numbers = name.substr(slash + kShard.size());
  const size_t line = numbers.find('_');
  if (line == numbers.npos) return std::nullopt;
  const auto offsets = parse_numbers(numbers.substr(0, line));
  const auto sizes = parse_numbers(numbers.substr(line + 1));
  if (!offsets.has_value() || !sizes.has_value() || offsets->size() != sizes->size()) {
    return std::nullopt;
  }
  return DistShardName{std::string(name.substr(0, slash)), *offsets, *sizes};
}

Result<DistModel> read_dist_model(const DistFolder& folder, const model::ParameterTable& table,
                                  bool is_hybrid) {
  return ModelReader(folder, table, is_hybrid).read();
}

}  // namespace meg::checkpoint
