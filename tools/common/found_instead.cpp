#include "tools/common/found_instead.h"

#include <filesystem>
#include <optional>
#include <string_view>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::tools {
namespace {

/// The format of the checkpoint at a path; nullopt if there is none.
std::optional<std::string_view> checkpoint_format_at(const std::string& path) {
  const Result<checkpoint::CheckpointFolder> found = checkpoint::find_checkpoint(path);
  if (!found.has_value()) return std::nullopt;
  // Any file passes for one torch file until it is opened.
  const bool is_file = found->format == checkpoint::CheckpointFormat::kSingleFile;
  if (is_file && !checkpoint::TorchFile::open(path).has_value()) return std::nullopt;
  return checkpoint::checkpoint_format_text(found->format);
}

bool is_dataset_at(const std::string& path) {
  return dataset::IndexedDataset::open(path).has_value();
}

}  // namespace

Status no_dataset(const std::string& path, const Status& error) {
  const std::optional<std::string_view> format = checkpoint_format_at(path);
  if (!format.has_value()) return error;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a dataset, found a checkpoint ({}), which checkpoint_inspect and "
                    "verify checkpoint read",
                    path, *format);
}

Status no_checkpoint(const std::string& path, const Status& error) {
  if (!is_dataset_at(path)) return error;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a checkpoint, found a dataset, which dataset_inspect and verify "
                    "dataset read",
                    path);
}

std::string verify_command_for(const std::string& path) {
  if (checkpoint_format_at(path).has_value()) return "checkpoint";
  return is_dataset_at(path) ? "dataset" : "";
}

}  // namespace meg::tools
