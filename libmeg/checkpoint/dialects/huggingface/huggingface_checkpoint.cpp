#include "libmeg/checkpoint/dialects/huggingface/huggingface_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_weights.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/row_runs.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/checkpoint/state/concatenated_source.h"
#include "libmeg/checkpoint/state/converted_source.h"
#include "libmeg/checkpoint/state/same_bytes.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kOutput = "output_layer.weight";

/// Tensors in old files that every reader recomputes: masks and rotary tables.
bool is_derived(std::string_view name) {
  constexpr std::string_view kEndings[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                           ".attention.masked_bias", ".rotary_emb.inv_freq"};
  return std::ranges::any_of(kEndings, [&](auto ending) { return name.ends_with(ending); });
}

Result<HuggingFaceConfig> read_config(const std::string& folder) {
  const std::string path = join_path(folder, kConfigName);
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  if (file.size() > kMaxConfigBytes) {
    return make_error(StatusCode::kCorruption, "{}: expected up to {} bytes, found {}", path,
                      kMaxConfigBytes, file.size());
  }
  return read_huggingface_config(file.text(), path);
}

/// Opens a folder as the whole model that config.json describes: takes each tensor of the
/// architecture out of the weights, checks it, and assigns it to the rows of Megatron's parameter
/// that it corresponds to. Tensors left at the end are refused, because a model with a further bias
/// or norm would compute something else.
class CheckpointOpener {
 public:
  explicit CheckpointOpener(const std::string& folder) { made_.folder = folder; }

  Result<HuggingFaceCheckpoint> open() {
    MEG_ASSIGN_OR_RETURN(made_.config, read_config(made_.folder));
    MEG_RETURN_IF_ERROR(read_model());
    MEG_ASSIGN_OR_RETURN(weights_, open_huggingface_weights(made_.folder));
    count_bytes();
    add_prefix();
    // config.json can claim any number of layers; their tensors are listed only where there are as
    // many.
    if (made_.model.num_layers > static_cast<int64_t>(weights_.size())) {
      return make_error(StatusCode::kCorruption, "{}: expected the tensors of {} layers, found {}",
                        made_.folder, made_.model.num_layers, weights_.size());
    }
    MEG_ASSIGN_OR_RETURN(
        const std::vector<model::HuggingFaceTensor> tensors,
        model::hugging_face_tensors(made_.config.architecture.family, made_.model));
    MEG_RETURN_IF_ERROR(check_tied_head());
    for (size_t i = 0; i < tensors.size();) {
      size_t end = i + 1;
      while (end < tensors.size() && tensors[end].parameter == tensors[i].parameter) ++end;
      MEG_RETURN_IF_ERROR(add_parameter(std::span(tensors).subspan(i, end - i)));
      i = end;
    }
    MEG_RETURN_IF_ERROR(check_others());
    unify_layers();
    made_.notes = made_.config.notes;
    choose_dtype();
    return std::move(made_);
  }

 private:
  Status read_model() {
    const megatron::FieldLookup lookup = [this](std::string_view name) {
      return made_.config.field(name);
    };
    Result<model::GptConfig> model = model::GptConfig::from_fields(lookup);
    if (!model.has_value()) {
      return model.error().with_prefix(join_path(made_.folder, kConfigName));
    }
    made_.model = *std::move(model);
    made_.model.padded_vocab_size = made_.config.vocab_size;
    return Status();
  }

  /// The tensor of a parameter that is one in every family.
  std::string name_of(std::string_view canonical) const {
    return model::hugging_face_name(made_.config.architecture.family, canonical);
  }

  void count_bytes() {
    std::set<std::string> files;
    for (const auto& [name, weight] : weights_) files.insert(weight.file);
    for (const std::string& file : files) {
      std::error_code error;
      const uint64_t bytes = std::filesystem::file_size(file, error);
      if (!error) made_.weight_file_bytes += bytes;
    }
  }

  /// Old files of GPT-2 are of the model without its head.
  void add_prefix() {
    if (made_.config.architecture.family != model::HuggingFaceFamily::kGpt2 ||
        !weights_.contains("wte.weight")) {
      return;
    }
    HuggingFaceWeights renamed;
    for (auto& [name, weight] : weights_) {
      const std::string full = name == name_of(kOutput) ? name : std::string(kGpt2Prefix) + name;
      renamed.emplace(full, std::move(weight));
    }
    weights_ = std::move(renamed);
  }

  /// A tied head is the embedding, whether the files hold it or not.
  Status check_tied_head() {
    const auto head = weights_.find(name_of(kOutput));
    if (made_.model.untie_embeddings_and_output_weights || head == weights_.end()) return Status();
    const auto table = weights_.find(name_of("embedding.word_embeddings.weight"));
    if (table == weights_.end()) return Status();
    MEG_ASSIGN_OR_RETURN(const bool is_same,
                         same_bytes(*head->second.source, *table->second.source));
    if (!is_same) {
      return make_error(
          StatusCode::kCorruption,
          "{}: {}: expected the embedding's values, because of tie_word_embeddings, found others",
          head->second.file, head->first);
    }
    weights_.erase(head);
    return Status();
  }

  /// Takes a tensor's elements out of the weights, its rows as the parameter has them.
  Result<std::shared_ptr<const TensorSource>> take(const model::HuggingFaceTensor& tensor) {
    const auto found = weights_.find(tensor.name);
    if (found == weights_.end()) {
      return make_error(StatusCode::kCorruption, "{}: expected tensor {}, found none", made_.folder,
                        tensor.name);
    }
    const HuggingFaceWeight weight = std::move(found->second);
    weights_.erase(found);
    if (weight.shape != tensor.shape) {
      return make_error(StatusCode::kCorruption, "{}: {}: expected shape {}, found {}", weight.file,
                        tensor.name, shape_text(tensor.shape), shape_text(weight.shape));
    }
    MEG_RETURN_IF_ERROR(check_dtype(tensor.name, weight));
    if (!tensor.is_transposed) return weight.source;
    return transposed_source(weight.source, tensor.shape[1], tensor.shape[0]);
  }

  Status check_dtype(const std::string& name, const HuggingFaceWeight& weight) {
    const DType dtype = weight.source->dtype();
    elements_[dtype] += weight.source->elements();
    const bool is_float =
        dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
    if (is_float) return Status();
    return make_error(StatusCode::kUnsupported, "{}: {}: expected type {}, found {}", weight.file,
                      name, "float32, float16 or bfloat16", dtype_name(dtype));
  }

  /// Megatron's args have one type for the model: that of most elements.
  void choose_dtype() {
    int64_t most = 0;
    std::string types;
    for (const auto& [dtype, count] : elements_) {
      if (count > most) made_.dtype = dtype;
      most = std::max(most, count);
      types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, dtype_name(dtype));
    }
    if (elements_.size() > 1) {
      made_.notes.push_back(fmt::format(
          "{}: elements of several types ({}): each tensor keeps its own unless all are "
          "converted (`target_params_dtype`)",
          made_.folder, types));
    }
    const std::string& named = made_.config.dtype;
    if (!named.empty() && named != dtype_name(made_.dtype)) {
      made_.notes.push_back(fmt::format(
          "{}: dtype {}, but the tensors are {}: read as they are, without the conversion that "
          "transformers makes",
          join_path(made_.folder, kConfigName), text::printable(named, 40),
          dtype_name(made_.dtype)));
    }
  }

  /// tensors: all that hold a part of one parameter.
  Status add_parameter(std::span<const model::HuggingFaceTensor> tensors) {
    std::map<int64_t, std::shared_ptr<const TensorSource>> by_row;
    for (const model::HuggingFaceTensor& tensor : tensors) {
      MEG_ASSIGN_OR_RETURN(const auto source, take(tensor));
      const int64_t row = row_elements(tensor);
      for (const RowRun& run : row_runs(tensor)) {
        // Sorted by the parameter's rows, so that the parts only have to be concatenated.
        by_row[run.parameter_row] = part_of(source, run.tensor_row * row, run.rows * row);
      }
    }
    // A parameter has one type: parts of several become float32, which holds them all exactly.
    const DType first = by_row.begin()->second->dtype();
    const bool is_mixed = std::ranges::any_of(
        by_row, [first](const auto& part) { return part.second->dtype() != first; });
    std::vector<std::shared_ptr<const TensorSource>> parts;
    for (auto& [row, part] : by_row) {
      parts.push_back(is_mixed ? converted(std::move(part), DType::kFloat32) : std::move(part));
    }
    made_.parameters.push_back({tensors[0].parameter, concatenated(std::move(parts))});
    return Status();
  }

  /// A parameter has the same type in all layers: some formats stack them. Of several float32,
  /// which holds them all exactly.
  void unify_layers() {
    if (elements_.size() < 2) return;
    const auto kind_of = [](const std::string& name) {
      std::string kind;
      for (const char c : name) {
        const bool is_of_number = c >= '0' && c <= '9' && kind.ends_with('.');
        if (!is_of_number) kind += c;
      }
      return kind;
    };
    std::map<std::string, std::set<DType>> types;
    for (const HuggingFaceParameter& parameter : made_.parameters) {
      types[kind_of(parameter.name)].insert(parameter.source->dtype());
    }
    for (HuggingFaceParameter& parameter : made_.parameters) {
      const bool is_other = parameter.source->dtype() != DType::kFloat32;
      if (types.at(kind_of(parameter.name)).size() == 1 || !is_other) continue;
      parameter.source = converted(std::move(parameter.source), DType::kFloat32);
    }
  }

  Status check_others() const {
    for (const auto& [name, weight] : weights_) {
      if (is_derived(name)) continue;
      return make_error(StatusCode::kUnsupported, "{}: {}: expected a tensor of {}, found another",
                        weight.file, text::printable(name, 200),
                        made_.config.architecture.class_name);
    }
    return Status();
  }

  HuggingFaceCheckpoint made_;
  HuggingFaceWeights weights_;         ///< Those not taken yet.
  std::map<DType, int64_t> elements_;  ///< Of each type.
};

}  // namespace

Result<HuggingFaceCheckpoint> open_huggingface_checkpoint(const std::string& folder) {
  return CheckpointOpener(folder).open();
}

}  // namespace meg::checkpoint
