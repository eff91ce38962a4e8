#include "libmeg/checkpoint/inspect/checkpoint_statistics.h"

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"
#include "libmeg/checkpoint/transfer/merged_reader.h"

namespace meg::checkpoint {
namespace {

class Collector {
 public:
  explicit Collector(const std::function<bool(std::string_view)>& wanted) : wanted_(wanted) {}

  void add_whole(const MegatronCheckpoint& checkpoint) {
    for (const LogicalParameter& parameter : checkpoint.parameters()) {
      for (const LogicalTensor& tensor : parameter.tensors) {
        add(parameter, tensor, checkpoint.family());
      }
    }
  }

  /// only: the group to take; all of them where empty.
  void add_file(const FileSummary& file, std::optional<TensorGroup> only = std::nullopt) {
    for (size_t i = 0; i < file.contents.tensors.size(); ++i) {
      const NamedTensor& tensor = file.contents.tensors[i];
      if (only.has_value() && file.groups[i] != *only) continue;
      if (tensor.view == nullptr || !is_wanted(tensor.name)) continue;
      found_.push_back({.name = tensor.name,
                        .kind = "",
                        .file = file.path,
                        .canonical = "",
                        .layer = std::nullopt,
                        .dtype = tensor.view->dtype,
                        .shape = tensor.shape,
                        .statistics = {}});
      sources_.push_back({fmt::format("{}: {}", file.path, tensor.name), tensor.view->dtype,
                          tensor.elements,
                          [&file, view = tensor.view](int64_t first, std::span<std::byte> into) {
                            return file.file->read_elements(*view, first, into);
                          }});
    }
  }

  Result<std::vector<NamedStatistics>> compute(const CheckpointSummary& summary,
                                               const ProgressCallback& progress) {
    uint64_t bytes = 0;
    for (const StatisticsSource& source : sources_) {
      bytes += static_cast<uint64_t>(source.elements * dtype_size(source.dtype));
    }
    MEG_RETURN_IF_ERROR(check_tensor_bytes(summary.folder.folder, bytes, summary.bytes));
    MEG_ASSIGN_OR_RETURN(const std::vector<TensorStatistics> results,
                         tensor_statistics(sources_, 0, progress));
    for (size_t i = 0; i < results.size(); ++i) found_[i].statistics = results[i];
    return std::move(found_);
  }

 private:
  bool is_wanted(const std::string& name) const { return !wanted_ || wanted_(name); }

  void add(const LogicalParameter& parameter, const LogicalTensor& tensor,
           model::NameFamily family) {
    const std::string suffix = tensor.kind == "weight" ? "" : " " + tensor.kind;
    const std::string spelling =
        parameter.layer.has_value()
            ? model::with_layer(parameter.spelling, *parameter.layer, family)
            : parameter.spelling;
    // Selected by either name: that in the whole model, which is printed, or that in the files.
    if (!is_wanted(parameter.name + suffix) && !is_wanted(spelling + suffix)) return;
    int64_t elements = 1;
    for (const int64_t size : parameter.axes.sizes) elements *= size;
    found_.push_back({.name = parameter.name,
                      .kind = tensor.kind,
                      .file = "",
                      .canonical = parameter.canonical,
                      .layer = parameter.layer,
                      .dtype = tensor.dtype,
                      .shape = parameter.shape,
                      .statistics = {}});
    sources_.push_back({parameter.name + suffix, tensor.dtype, elements,
                        [&parameter, &tensor](int64_t first, std::span<std::byte> into) {
                          return read_merged(parameter, tensor, first, into);
                        }});
  }

  const std::function<bool(std::string_view)>& wanted_;
  std::vector<NamedStatistics> found_;
  std::vector<StatisticsSource> sources_;
};

}  // namespace

Result<std::vector<NamedStatistics>> checkpoint_statistics(
    const CheckpointSummary& summary, const std::function<bool(std::string_view)>& wanted,
    const ProgressCallback& progress) {
  Collector collector(wanted);
  std::optional<TensorGroup> only;
  if (summary.whole.has_value()) {
    collector.add_whole(*summary.whole);
    only = TensorGroup::kOptimizer;
  }
  // State of optimizers that cannot be assigned to parameters is taken as it is in the files.
  const bool has_state = summary.whole.has_value() && summary.whole->optimizer().has_state;
  for (const FileSummary& file : summary.files) {
    if (file.file != nullptr && !has_state) collector.add_file(file, only);
  }
  return collector.compute(summary, progress);
}

}  // namespace meg::checkpoint
