#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_weights.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "libmeg/checkpoint/container/safetensors/safetensors_file.h"
#include "libmeg/checkpoint/container/safetensors/shard_index.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

/// An index names every tensor: more than that is none.
constexpr size_t kMaxIndexBytes = size_t{100} << 20;

/// A way in which a folder may hold its weights, by the file that tells it.
struct Form {
  const char* name;
  bool is_index;
  bool is_safetensors;
};

constexpr Form kForms[] = {{"model.safetensors", false, true},
                           {"model.safetensors.index.json", true, true},
                           {"pytorch_model.bin", false, false},
                           {"pytorch_model.bin.index.json", true, false}};

Status add(std::string_view name, HuggingFaceWeight weight, HuggingFaceWeights* weights) {
  const std::string file = weight.file;
  const auto [found, is_new] = weights->try_emplace(std::string(name), std::move(weight));
  if (is_new) return Status();
  return make_error(StatusCode::kCorruption, "{}: {}: expected it in one file, found it in {} too",
                    file, text::printable(name, 200), found->second.file);
}

Status add_safetensors(const std::string& path, HuggingFaceWeights* weights) {
  MEG_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::open(path));
  const auto file = std::make_shared<const SafetensorsFile>(std::move(opened));
  // Shares the ownership of the whole.
  const std::shared_ptr<const io::PooledFile> whole(file, &file->file());
  for (const SafetensorsTensor& tensor : file->header().tensors) {
    const auto elements = static_cast<int64_t>(tensor.bytes) / dtype_size(tensor.dtype);
    MEG_RETURN_IF_ERROR(
        add(tensor.name,
            {.shape = tensor.shape,
             .source = file_source(whole, file->file_offset(tensor), tensor.dtype, elements),
             .file = path},
            weights));
  }
  return Status();
}

Status add_torch_file(const std::string& path, HuggingFaceWeights* weights) {
  MEG_ASSIGN_OR_RETURN(TorchFile opened, TorchFile::open(path));
  const auto file = std::make_shared<const TorchFile>(std::move(opened));
  const PickleGraph& graph = file->graph();
  const auto pairs = graph.pairs(file->root());
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<std::string_view> name = graph.as_string(pairs[i]);
    const TensorView* tensor = file->tensor(pairs[i + 1]);
    if (!name.has_value() || tensor == nullptr) {
      return make_error(
          StatusCode::kCorruption, "{}: expected tensors by name, found {}", path,
          name.has_value() ? text::printable(*name, 200) + " without one" : "another key");
    }
    MEG_RETURN_IF_ERROR(
        add(*name, {.shape = tensor->shape, .source = torch_source(file, *tensor), .file = path},
            weights));
  }
  return Status();
}

Status add_file(const std::string& path, bool is_safetensors, HuggingFaceWeights* weights) {
  return is_safetensors ? add_safetensors(path, weights) : add_torch_file(path, weights);
}

/// Checks that every tensor is in the file that the index names.
Status check_index(const std::string& path, const ShardIndex& index,
                   const HuggingFaceWeights& weights) {
  for (const auto& [name, file] : index.files) {
    const auto found = weights.find(name);
    if (found != weights.end() && fs::path(found->second.file).filename() == file) continue;
    return make_error(StatusCode::kCorruption, "{}: {}: expected it in {}, found it {}", path,
                      text::printable(name, 200), text::printable(file),
                      found == weights.end() ? "nowhere" : "in " + found->second.file);
  }
  for (const auto& [name, weight] : weights) {
    if (index.files.contains(name)) continue;
    return make_error(StatusCode::kCorruption, "{}: {}: expected it in the index {}, found none",
                      weight.file, text::printable(name, 200), path);
  }
  return Status();
}

Result<HuggingFaceWeights> open_indexed(const std::string& path, bool is_safetensors) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  if (file.size() > kMaxIndexBytes) {
    return make_error(StatusCode::kCorruption, "{}: expected an index of up to {} bytes, found {}",
                      path, kMaxIndexBytes, file.size());
  }
  MEG_ASSIGN_OR_RETURN(const ShardIndex index, parse_shard_index(file.text(), path));
  HuggingFaceWeights weights;
  for (const std::string& name : index.file_names()) {
    const std::string shard = (fs::path(path).parent_path() / name).string();
    std::error_code error;
    if (!fs::exists(shard, error)) {
      return make_error(StatusCode::kNotFound, "{}: names {}, but there is no such file", path,
                        text::printable(name));
    }
    MEG_RETURN_IF_ERROR(add_file(shard, is_safetensors, &weights));
  }
  // Both ways: a shard of another model would bring tensors that the index does not name.
  MEG_RETURN_IF_ERROR(check_index(path, index, weights));
  return weights;
}

}  // namespace

Result<HuggingFaceWeights> open_huggingface_weights(const std::string& folder) {
  const Form* found = nullptr;
  for (const Form& form : kForms) {
    std::error_code error;
    if (!fs::exists(fs::path(folder) / form.name, error)) continue;
    // As in transformers, safetensors take precedence over the files they were made from.
    if (found != nullptr && found->is_safetensors && !form.is_safetensors) continue;
    if (found != nullptr) {
      return make_error(StatusCode::kCorruption, "{}: expected {} or {}, found both", folder,
                        found->name, form.name);
    }
    found = &form;
  }
  if (found == nullptr) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected {}, {} or the index of one of them, found none", folder,
                      kForms[0].name, kForms[2].name);
  }
  const std::string path = (fs::path(folder) / found->name).string();
  if (found->is_index) return open_indexed(path, found->is_safetensors);
  HuggingFaceWeights weights;
  MEG_RETURN_IF_ERROR(add_file(path, found->is_safetensors, &weights));
  return weights;
}

Result<TorchFile> open_safetensors_as_torch_file(const std::string& path) {
  HuggingFaceWeights weights;
  MEG_RETURN_IF_ERROR(add_safetensors(path, &weights));
  TorchFileContent content;
  std::vector<std::shared_ptr<const TensorSource>> sources;
  std::vector<PickleId> pairs;
  for (const auto& [name, weight] : weights) {
    const auto bytes = static_cast<uint64_t>(weight.source->bytes());
    const int storage = content.add_storage(weight.source->dtype(), bytes);
    pairs.push_back(content.graph().add_string(name));
    pairs.push_back(content.add_tensor(storage, weight.shape));
    sources.push_back(weight.source);
  }
  content.root = content.graph().add_dict(std::move(pairs));
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  return TorchFile::compose(path, content, std::move(sources), error ? 0 : bytes);
}

}  // namespace meg::checkpoint
