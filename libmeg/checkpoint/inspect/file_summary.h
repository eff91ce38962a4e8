#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/inspect/named_tensors.h"

namespace meg::checkpoint {

/// What a tensor of a rank's file belongs to.
enum class TensorGroup : uint8_t { kModel, kOptimizer, kOther };

/// "model", "optimizer" or "other".
std::string_view tensor_group_text(TensorGroup group);

/// One file of a checkpoint.
struct FileSummary {
  std::string path;  ///< Relative to the checkpoint's folder.
  uint64_t bytes = 0;
  Status status;                          ///< Why it could not be opened.
  std::shared_ptr<const TorchFile> file;  ///< nullptr if it could not be opened.
  NamedTensors contents;
  std::vector<TensorGroup> groups;  ///< The group of each of contents.tensors.
  int64_t parameters = 0;           ///< Elements of its model's parameters.
};

/// path: of the file. folder: the result's path is relative to it. opened: the file if it is
/// already open, otherwise nullptr. budget: as for TorchFile::open. Failure to open it is part of
/// the summary.
FileSummary summarize_file(const std::string& path, const std::string& folder,
                           std::shared_ptr<const TorchFile> opened = nullptr,
                           PickleBudget* budget = nullptr);

/// The files of a folder by name and size alone, none of them opened.
std::vector<FileSummary> list_files(const std::string& folder);

}  // namespace meg::checkpoint
