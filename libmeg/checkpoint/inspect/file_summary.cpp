#include "libmeg/checkpoint/inspect/file_summary.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_weights.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

uint64_t size_on_disk(const fs::path& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

/// The first key of a name: "model" of "model/embedding/weight".
std::string_view first_key(std::string_view name) { return name.substr(0, name.find('/')); }

TensorGroup group_of(std::string_view name) {
  const std::string_view key = first_key(name);
  if (is_model_key(key)) return TensorGroup::kModel;
  return key == "optimizer" ? TensorGroup::kOptimizer : TensorGroup::kOther;
}

bool is_safetensors(std::string_view path) { return path.ends_with(".safetensors"); }

bool is_dict_of_tensors(const TorchFile& file) {
  const auto pairs = file.graph().pairs(file.root());
  for (size_t i = 1; i < pairs.size(); i += 2) {
    if (file.tensor(pairs[i]) == nullptr) return false;
  }
  return !pairs.empty();
}

}  // namespace

std::string_view tensor_group_text(TensorGroup group) {
  switch (group) {
    case TensorGroup::kModel:
      return "model";
    case TensorGroup::kOptimizer:
      return "optimizer";
    case TensorGroup::kOther:
      return "other";
  }
  return "";
}

FileSummary summarize_file(const std::string& path, const std::string& folder,
                           std::shared_ptr<const TorchFile> opened, PickleBudget* budget) {
  FileSummary summary;
  summary.path = path.starts_with(folder + "/") ? path.substr(folder.size() + 1) : path;
  summary.bytes = size_on_disk(path);
  summary.file = std::move(opened);
  if (summary.file == nullptr) {
    Result<TorchFile> file = is_safetensors(path) ? open_safetensors_as_torch_file(path)
                                                  : TorchFile::open(path, {.budget = budget});
    if (!file.has_value()) {
      summary.status = file.error();
      return summary;
    }
    summary.file = std::make_shared<const TorchFile>(*std::move(file));
  }
  summary.bytes = summary.file->size();
  summary.contents = named_tensors(*summary.file);
  // This includes distrib_optim.pt: whatever these files hold is the optimizer's, by any key.
  const bool is_optimizer = path.ends_with("optim.pt");
  // Files of Hugging Face hold weights alone, by their names.
  const bool is_weights = is_dict_of_tensors(*summary.file);
  for (const NamedTensor& tensor : summary.contents.tensors) {
    summary.groups.push_back(is_optimizer ? TensorGroup::kOptimizer
                             : is_weights ? TensorGroup::kModel
                                          : group_of(tensor.name));
  }
  return summary;
}

std::vector<FileSummary> list_files(const std::string& folder) {
  std::vector<FileSummary> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    FileSummary& file = files.emplace_back();
    file.path = at->path().filename().string();
    file.bytes = size_on_disk(at->path());
  }
  std::sort(files.begin(), files.end(),
            [](const FileSummary& a, const FileSummary& b) { return a.path < b.path; });
  return files;
}

}  // namespace meg::checkpoint
