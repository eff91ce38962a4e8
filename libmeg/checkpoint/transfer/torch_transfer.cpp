#include "libmeg/checkpoint/transfer/torch_transfer.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/internal/storage_sink.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

Result<std::vector<TorchFileWriter>> create_writers(const TransferPlan& plan,
                                                    const std::string& folder) {
  std::vector<TorchFileWriter> writers;
  writers.reserve(plan.targets.size());
  for (const TransferTargetFile& target : plan.targets) {
    const fs::path path = fs::path(folder) / target.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return errno_error(error.value(), "cannot create folder " + path.parent_path().string());
    }
    MEG_ASSIGN_OR_RETURN(auto writer,
                         TorchFileWriter::create(path.string(), target.content, target.layout));
    writers.push_back(std::move(writer));
  }
  return writers;
}

/// The storages of all files, each at its number among the sinks.
std::vector<std::unique_ptr<TensorSink>> make_sinks(const TransferPlan& plan,
                                                    std::vector<TorchFileWriter>* writers) {
  std::vector<std::unique_ptr<TensorSink>> sinks;
  for (size_t f = 0; f < plan.targets.size(); ++f) {
    const TransferTargetFile& target = plan.targets[f];
    const auto storages = target.content.storages();
    for (size_t i = 0; i < storages.size(); ++i) {
      if (!storages[i].literal.empty()) continue;
      const auto number = static_cast<size_t>(target.sinks[i]);
      sinks.resize(std::max(sinks.size(), number + 1));
      sinks[number] = std::make_unique<StorageSink<TorchFileWriter>>(
          &(*writers)[f], static_cast<int>(i), storages[i].bytes);
    }
  }
  return sinks;
}

}  // namespace

int64_t TransferPlan::source_bytes() const {
  int64_t bytes = 0;
  for (const TensorTransfer& transfer : transfers) {
    for (const Piece& source : transfer.sources) bytes += source.source->bytes();
  }
  return bytes;
}

int64_t TransferPlan::target_bytes() const {
  int64_t bytes = 0;
  for (const TransferTargetFile& target : targets) {
    bytes += static_cast<int64_t>(target.layout.file_size);
  }
  return bytes;
}

Status execute_transfers(const TransferPlan& plan, const std::string& folder,
                         const TransferOptions& options) {
  try {
    MEG_ASSIGN_OR_RETURN(auto writers, create_writers(plan, folder));
    const auto sinks = make_sinks(plan, &writers);
    MEG_RETURN_IF_ERROR(run_transfers(plan.transfers, sinks, options));
    for (TorchFileWriter& writer : writers) MEG_RETURN_IF_ERROR(writer.finish());
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the plan of the transfers");
  }
}

}  // namespace meg::checkpoint
