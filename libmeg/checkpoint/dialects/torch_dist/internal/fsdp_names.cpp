#include "libmeg/checkpoint/dialects/torch_dist/internal/fsdp_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kWrapper = "module.";
constexpr std::string_view kExpertsOfLayer = ".mlp.experts.";
constexpr std::string_view kRouter = ".mlp.router.";
/// Suffixes of the halves of a gated matrix or bias: first the gate, then what it gates.
constexpr std::string_view kHalves[] = {"_w", "_v"};
/// torch's own Adam keeps it as a tensor, once a parameter.
constexpr std::string_view kStep = "step";

/// A tensor under its new name, and which half of one it is.
struct Renamed {
  std::string name;
  std::optional<size_t> half;
};

/// "NAME_w" is half 0 of NAME.
Renamed without_half(std::string name) {
  for (size_t half = 0; half < std::size(kHalves); ++half) {
    if (!name.ends_with(kHalves[half]) || name.find(".linear_fc1.") == name.npos) continue;
    name.resize(name.size() - kHalves[half].size());
    return {std::move(name), half};
  }
  return {std::move(name), std::nullopt};
}

class Renamer {
 public:
  Renamer(DistMetadata metadata, const std::string& folder)
      : metadata_(std::move(metadata)), folder_(folder) {}

  Result<DistMetadata> rename() {
    DistMetadata made;
    made.files = std::move(metadata_.files);
    made.objects = std::move(metadata_.objects);
    for (DistTensor& tensor : metadata_.tensors) {
      MEG_RETURN_IF_ERROR(check_supported(tensor.name));
      std::optional<Renamed> renamed = new_name(tensor.name);
      if (!renamed.has_value()) {
        MEG_RETURN_IF_ERROR(add_object(tensor, &made));
      } else if (renamed->half.has_value()) {
        halves_[renamed->name][*renamed->half] = &tensor;
      } else {
        tensor.name = std::move(renamed->name);
        made.tensors.push_back(std::move(tensor));
      }
    }
    for (const auto& [name, halves] : halves_) {
      MEG_ASSIGN_OR_RETURN(DistTensor whole, joined(name, halves));
      made.tensors.push_back(std::move(whole));
    }
    MEG_RETURN_IF_ERROR(check_unique(made));
    return made;
  }

 private:
  using Halves = std::map<size_t, const DistTensor*>;

  template <class... Args>
  Status refuse(StatusCode code, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, "{}: {}", folder_,
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Status check_supported(const std::string& name) const {
    const std::string shown = text::printable(name, 200);
    if (name.find(kExpertsOfLayer) != name.npos || name.find(kRouter) != name.npos) {
      return refuse(StatusCode::kUnsupported,
                    "{}: experts of `ckpt_format` fsdp_dtensor are not supported", shown);
    }
    const bool is_chained =
        name.starts_with(kDistOptimizerPrefix) && name.size() > kDistOptimizerPrefix.size() &&
        name[kDistOptimizerPrefix.size()] >= '0' && name[kDistOptimizerPrefix.size()] <= '9';
    if (!is_chained) return {};
    return refuse(StatusCode::kUnsupported,
                  "{}: chained optimizers are not supported in `ckpt_format` fsdp_dtensor", shown);
  }

  /// nullopt for tensors that are no weight and no moment.
  static std::optional<Renamed> new_name(std::string_view name) {
    if (name.starts_with(kFsdpModelPrefix)) {
      return without_half(std::string(without_wrappers(name.substr(kFsdpModelPrefix.size()))));
    }
    if (!name.starts_with(kDistStatePrefix)) return std::nullopt;
    const std::string_view rest = without_wrappers(name.substr(kDistStatePrefix.size()));
    const size_t dot = rest.rfind('.');
    const std::string_view kind = dot == rest.npos ? rest : rest.substr(dot + 1);
    if (dot == rest.npos || kind == kStep) return std::nullopt;
    Renamed made = without_half(std::string(rest.substr(0, dot)));
    // What optimizers that keep masters themselves call them.
    const std::string_view shown = kind == "master_param" ? "param" : kind;
    made.name = fmt::format("{}{}.{}", kDistStatePrefix, shown, made.name);
    return made;
  }

  Status add_object(const DistTensor& tensor, DistMetadata* made) const {
    const size_t chunks = tensor.chunks.size();
    if (chunks != 1) {
      return refuse(StatusCode::kUnsupported, "{}: expected a tensor in one chunk, found {}",
                    text::printable(tensor.name, 200), chunks);
    }
    made->objects.push_back({tensor.name, tensor.chunks[0].blob});
    return {};
  }

  /// The rows of the gate above those of what it gates.
  Result<DistTensor> joined(const std::string& name, const Halves& halves) const {
    const std::string shown = text::printable(name, 200);
    if (halves.size() != std::size(kHalves)) {
      return refuse(StatusCode::kCorruption, "{}: expected two halves (_w and _v), found one",
                    shown);
    }
    const DistTensor &gate = *halves.at(0), &gated = *halves.at(1);
    if (gate.shape.empty() || gate.shape != gated.shape || gate.dtype != gated.dtype) {
      const std::string left = shape_text(gate.shape), right = shape_text(gated.shape);
      return refuse(StatusCode::kCorruption, "{}: expected two equal halves, found {} {} and {} {}",
                    shown, dtype_name(gate.dtype), left, dtype_name(gated.dtype), right);
    }
    DistTensor whole = gate;
    whole.name = name;
    const int64_t rows = gate.shape[0];
    if (rows > INT64_MAX / 2) {
      return refuse(StatusCode::kCorruption, "{}: expected fewer rows than {}", shown, rows);
    }
    whole.shape[0] = 2 * rows;
    for (DistChunk chunk : gated.chunks) {
      chunk.offsets[0] += rows;
      whole.chunks.push_back(std::move(chunk));
    }
    MEG_RETURN_IF_ERROR(check_boxes(whole).with_prefix(shown).with_prefix(folder_));
    return whole;
  }

  Status check_unique(const DistMetadata& made) const {
    std::set<std::string_view> names;
    for (const DistTensor& tensor : made.tensors) {
      if (names.insert(tensor.name).second) continue;
      return refuse(StatusCode::kCorruption, "{}: expected one item of this name, found two",
                    text::printable(tensor.name, 200));
    }
    return {};
  }

  DistMetadata metadata_;
  const std::string& folder_;
  std::map<std::string, Halves> halves_;
};

}  // namespace

std::string_view without_wrappers(std::string_view name) {
  while (name.starts_with(kWrapper)) name.remove_prefix(kWrapper.size());
  return name;
}

bool is_fsdp_dtensor(const DistMetadata& metadata) {
  return std::any_of(metadata.tensors.begin(), metadata.tensors.end(),
                     [](const DistTensor& tensor) {
                       const std::string_view name = tensor.name;
                       return name.starts_with(kFsdpModelPrefix) &&
                              name.substr(kFsdpModelPrefix.size()).starts_with(kWrapper);
                     });
}

Result<DistMetadata> with_torch_dist_names(DistMetadata metadata, const std::string& folder) {
  return Renamer(std::move(metadata), folder).rename();
}

}  // namespace meg::checkpoint
