#include "libmeg/checkpoint/training/read_training_tensors.h"

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"
#include "libmeg/model/expert_names.h"

// Turns "this shard of this tensor into that memory" into transfers: each has the pieces of the
// checkpoint that make up one logical tensor and the boxes of it that are wanted. Changing tensor-
// and pipeline-parallel sizes, widening and rounding and another padding of the vocabulary are all
// done by the transfer while it copies; no whole tensor is assembled.

namespace meg::checkpoint {
namespace {

constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";

/// Collects what the targets take of the checkpoint's tensors, and reads all of it at once.
class TensorsReader {
 public:
  TensorsReader(const MegatronCheckpoint& checkpoint, const TrainingTensorOptions& options)
      : path_(checkpoint.folder().folder),
        is_before_first_step_(!checkpoint.optimizer().has_state &&
                              checkpoint.optimizer().form != OptimizerForm::kNone),
        options_(options) {
    // Keyed by canonical name, which is the same for all names that revisions have given a
    // parameter.
    for (const LogicalParameter& parameter : checkpoint.parameters()) {
      by_name_.emplace(parameter.name, &parameter);
    }
  }

  Status add(const TrainingTensorTarget& target) {
    // The last stage's copy of tied embeddings is no parameter of its own: it is read from the
    // embedding.
    const bool is_tied_copy = target.name == model::kTiedCopyName;
    const auto found = by_name_.find(is_tied_copy ? kWordEmbeddings : target.name);
    if (found == by_name_.end()) {
      return make_error(StatusCode::kNotFound, "{}: expected the parameter {}, found none", path_,
                        target.name);
    }
    const LogicalParameter& parameter = *found->second;
    const Status fits = check_shape(parameter, target);
    if (!fits.ok()) return fits.with_prefix(path_);
    const LogicalTensor* source = source_of(parameter, target);
    if (source != nullptr) return add_transfer(parameter, *source, target);
    // Adam's moments are zero before its first step, and a checkpoint of then does not have them.
    if (is_before_first_step_) {
      std::fill(target.bytes.begin(), target.bytes.end(), std::byte{0});
      return Status();
    }
    return make_error(StatusCode::kNotFound, "{}: {}: expected {} in the optimizer, found none",
                      path_, target.name, target.kind);
  }

  Status read() const {
    TransferOptions options;
    options.workers = options_.workers;
    return run_transfers(transfers_, sinks_, options);
  }

 private:
  /// This rank among those that split the parameter.
  TensorParallelPlace place_of(const LogicalParameter& parameter) const {
    const TensorParallelPlace all = {.rank = options_.tensor_rank,
                                     .size = options_.tensor_model_parallel_size};
    const bool is_expert = model::parse_expert_name(parameter.name).has_value();
    return is_expert ? options_.of_experts.value_or(all) : all;
  }

  Status add_transfer(const LogicalParameter& parameter, const LogicalTensor& source,
                      const TrainingTensorTarget& target) {
    // Says which types cannot be converted.
    MEG_RETURN_IF_ERROR(convert_floats(source.dtype, {}, target.dtype, {})
                            .with_prefix(parameter.name + " (" + source.kind + ")"));
    const auto [rank, ranks] = place_of(parameter);
    const model::ShardAxes& axes = parameter.axes;
    std::vector<int64_t> merged = axes.sizes;
    // The target's padded height, which may be more or fewer rows than the checkpoint's: see
    // source_extent below.
    if (parameter.partition == model::Partition::kVocabulary) merged[0] = target.shape[0] * ranks;
    Box box = Box::shard(merged, axes.partition_axis, rank, ranks);
    // The embedding and its tied copy, or shards of several ranks that one process holds, read the
    // same tensor: one transfer with several targets reads the file once.
    const auto [found, is_new] =
        of_tensor_.try_emplace({&source, target.dtype, merged[0]}, transfers_.size());
    if (is_new && source.kind == "fp32_param") {
      // If the masters are of other weights, so are the moments, and a run would continue with
      // them whatever the weights are.
      MEG_ASSIGN_OR_RETURN(const bool fits, has_own_masters(parameter));
      if (!fits) {
        return make_error(StatusCode::kCorruption,
                          "{}: {}: expected the optimizer's fp32 weights to round to the model's, "
                          "found different values; `no_load_optim` or `finetune` does without",
                          path_, parameter.name);
      }
    }
    if (is_new) {
      const bool is_moment = target.kind == "exp_avg" || target.kind == "exp_avg_sq";
      TensorTransfer transfer;
      transfer.name = parameter.name + " (" + source.kind + ")";
      // The transfer pads rows beyond source_extent: weights with copies of the last row, as the
      // converter does, moments with zeros, as of rows that no token has ever reached.
      transfer.axes = std::move(merged);
      transfer.source_extent = axes.sizes[0];
      transfer.fill = is_moment ? PaddingFill::kZero : PaddingFill::kRepeatLastRow;
      transfer.target_dtype = target.dtype;
      transfer.sources = source.pieces;
      transfers_.push_back(std::move(transfer));
    }
    transfers_[found->second].targets.push_back(
        {.sink = static_cast<int>(sinks_.size()), .box = std::move(box)});
    sinks_.push_back(memory_sink(target.bytes));
    return Status();
  }

  // Runs before the files are read, so that a run of another shape is told which parameter differs
  // instead of where a copy ended.
  Status check_shape(const LogicalParameter& parameter, const TrainingTensorTarget& target) const {
    std::vector<int64_t> whole = parameter.shape;
    if (parameter.partition == model::Partition::kVocabulary && !whole.empty() &&
        !target.shape.empty()) {
      whole[0] = target.shape[0] * options_.tensor_model_parallel_size;
    }
    Result<std::vector<int64_t>> expected =
        model::shard_shape(parameter.partition, std::move(whole), place_of(parameter).size);
    if (!expected.has_value()) return expected.error().with_prefix(target.name);
    if (*expected != target.shape) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected shape {} as in this run, found {}", target.name,
                        shape_text(target.shape), shape_text(*expected));
    }
    int64_t bytes = dtype_size(target.dtype);
    for (const int64_t size : target.shape) bytes *= size;
    if (target.bytes.size() != static_cast<size_t>(bytes)) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected {} bytes to read into, found {}", target.name, bytes,
                        target.bytes.size());
    }
    return Status();
  }

  const LogicalTensor* source_of(const LogicalParameter& parameter,
                                 const TrainingTensorTarget& target) const {
    const LogicalTensor* weight = parameter.tensor("weight");
    const LogicalTensor* master = options_.use_masters ? parameter.tensor("fp32_param") : nullptr;
    // A run that has a master where the checkpoint has none (fp32 weights loaded into 16 bits)
    // takes the weight itself.
    if (target.kind == "fp32_param") return master != nullptr ? master : weight;
    if (target.kind != "weight") return parameter.tensor(target.kind);
    // Masters only where rounding makes a difference: the 16-bit weight read into 16 bits is exact
    // and half as much to read.
    return master != nullptr && weight->dtype != target.dtype ? master : weight;
  }

  const std::string& path_;
  bool is_before_first_step_;
  const TrainingTensorOptions& options_;
  std::unordered_map<std::string_view, const LogicalParameter*> by_name_;
  std::vector<TensorTransfer> transfers_;
  std::vector<std::unique_ptr<TensorSink>> sinks_;
  // Transfers that several targets share, keyed by source, dtype and rows of the target.
  std::map<std::tuple<const LogicalTensor*, DType, int64_t>, size_t> of_tensor_;
};

}  // namespace

Status read_training_tensors(const MegatronCheckpoint& checkpoint,
                             std::span<const TrainingTensorTarget> targets,
                             const TrainingTensorOptions& options) {
  const bool has_table = std::any_of(targets.begin(), targets.end(), [](const auto& target) {
    return target.name == kWordEmbeddings || target.name == model::kTiedCopyName;
  });
  if (has_table) MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint));
  try {
    TensorsReader reader(checkpoint, options);
    for (const TrainingTensorTarget& target : targets) MEG_RETURN_IF_ERROR(reader.add(target));
    return reader.read();
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "{}: out of memory",
                      checkpoint.folder().folder);
  }
}

}  // namespace meg::checkpoint
