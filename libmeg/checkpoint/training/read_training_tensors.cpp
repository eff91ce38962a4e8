#include "libmeg/checkpoint/training/read_training_tensors.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_map>

#include "libmeg/base/float_convert.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";

/// Elements that are read and converted at a time.
constexpr int64_t kBlockElements = int64_t{1} << 20;

/// Reads one target from one tensor of the checkpoint.
class TargetReader {
 public:
  TargetReader(const MegatronCheckpoint& checkpoint, const LogicalParameter& parameter,
               const LogicalTensor& source, const TrainingTensorTarget& target,
               const TrainingTensorOptions& options)
      : checkpoint_(checkpoint),
        parameter_(parameter),
        source_(source),
        target_(target),
        element_(dtype_size(target.dtype)) {
    const model::ShardAxes& axes = parameter.axes;
    const int cut = axes.partition_axis;
    const auto axis = static_cast<size_t>(std::max(cut, 0));
    if (cut < 0) {
      extent_ = 1;
      for (const int64_t size : axes.sizes) inner_ *= size;
      end_ = 1;
      return;
    }
    for (size_t i = 0; i < axis; ++i) outer_ *= axes.sizes[i];
    for (size_t i = axis + 1; i < axes.sizes.size(); ++i) inner_ *= axes.sizes[i];
    extent_ = axes.sizes[axis];
    int64_t whole = extent_;
    if (parameter.partition == model::Partition::kVocabulary && !target.shape.empty()) {
      whole = target.shape[0] * options.tensor_model_parallel_size;
    }
    const int64_t share = whole / options.tensor_model_parallel_size;
    begin_ = options.tensor_rank * share;
    end_ = begin_ + share;
  }

  Status read() {
    const int64_t there = std::clamp(extent_ - begin_, int64_t{0}, end_ - begin_);
    if (begin_ == 0 && end_ == extent_) return read_elements(0, outer_ * extent_ * inner_, 0);
    for (int64_t o = 0; o < outer_; ++o) {
      const int64_t at = o * (end_ - begin_) * inner_;
      MEG_RETURN_IF_ERROR(read_elements((o * extent_ + begin_) * inner_, there * inner_, at));
      MEG_RETURN_IF_ERROR(pad(there, at));
    }
    return Status();
  }

 private:
  std::span<std::byte> target(int64_t first, int64_t count) const {
    return target_.bytes.subspan(static_cast<size_t>(first * element_),
                                 static_cast<size_t>(count * element_));
  }

  /// Elements [first, first + count) of the merged tensor to element `at` of the target.
  Status read_elements(int64_t first, int64_t count, int64_t at) {
    while (count > 0) {
      const int64_t taken = std::min(count, kBlockElements);
      if (source_.dtype == target_.dtype) {
        MEG_RETURN_IF_ERROR(
            read_merged(checkpoint_, parameter_, source_, first, target(at, taken)));
      } else {
        block_.resize(static_cast<size_t>(taken * dtype_size(source_.dtype)));
        MEG_RETURN_IF_ERROR(read_merged(checkpoint_, parameter_, source_, first, block_));
        MEG_RETURN_IF_ERROR(
            convert_floats(source_.dtype, block_, target_.dtype, target(at, taken)));
      }
      first += taken;
      at += taken;
      count -= taken;
    }
    return Status();
  }

  /// Rows of the vocabulary from the target's row `row` on, which the checkpoint does not have.
  Status pad(int64_t row, int64_t at) {
    const bool is_moment = target_.kind == "exp_avg" || target_.kind == "exp_avg_sq";
    for (; row < end_ - begin_; ++row) {
      if (is_moment) {
        const std::span<std::byte> zeros = target(at + row * inner_, inner_);
        std::fill(zeros.begin(), zeros.end(), std::byte{0});
      } else {
        MEG_RETURN_IF_ERROR(read_elements((extent_ - 1) * inner_, inner_, at + row * inner_));
      }
    }
    return Status();
  }

  const MegatronCheckpoint& checkpoint_;
  const LogicalParameter& parameter_;
  const LogicalTensor& source_;
  const TrainingTensorTarget& target_;
  int64_t element_;
  // The merged tensor as [outer, extent, inner], of which [begin, end) of the second axis is read;
  // the vocabulary may end before.
  int64_t outer_ = 1, extent_ = 1, inner_ = 1;
  int64_t begin_ = 0, end_ = 1;
  std::vector<std::byte> block_;
};

class TensorsReader {
 public:
  TensorsReader(const MegatronCheckpoint& checkpoint, const TrainingTensorOptions& options)
      : checkpoint_(checkpoint), options_(options) {
    for (const LogicalParameter& parameter : checkpoint.parameters()) {
      by_name_.emplace(parameter.name, &parameter);
    }
  }

  Status read(const TrainingTensorTarget& target) const {
    const bool is_tied_copy = target.name == model::kTiedCopyName;
    const auto found = by_name_.find(is_tied_copy ? kWordEmbeddings : target.name);
    if (found == by_name_.end()) {
      return make_error(StatusCode::kNotFound, "{}: expected the parameter {}, found none",
                        checkpoint_.folder().folder, target.name);
    }
    const LogicalParameter& parameter = *found->second;
    const Status fits = check_shape(parameter, target);
    if (!fits.ok()) return fits.with_prefix(checkpoint_.folder().folder);
    const LogicalTensor* source = source_of(parameter, target);
    if (source != nullptr) {
      MEG_RETURN_IF_ERROR(check_crcs(parameter, *source));
      return TargetReader(checkpoint_, parameter, *source, target, options_).read();
    }
    if (!checkpoint_.optimizer().has_state &&
        checkpoint_.optimizer().form != OptimizerForm::kNone) {
      std::fill(target.bytes.begin(), target.bytes.end(), std::byte{0});
      return Status();
    }
    return make_error(StatusCode::kNotFound, "{}: {}: expected {} in the optimizer, found none",
                      checkpoint_.folder().folder, target.name, target.kind);
  }

 private:
  Status check_shape(const LogicalParameter& parameter, const TrainingTensorTarget& target) const {
    std::vector<int64_t> whole = parameter.shape;
    if (parameter.partition == model::Partition::kVocabulary && !whole.empty() &&
        !target.shape.empty()) {
      whole[0] = target.shape[0] * options_.tensor_model_parallel_size;
    }
    Result<std::vector<int64_t>> expected = model::shard_shape(
        parameter.partition, std::move(whole), options_.tensor_model_parallel_size);
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

  /// Of the storages that are read; those of replicated tensors' first rank alone.
  Status check_crcs(const LogicalParameter& parameter, const LogicalTensor& source) const {
    const size_t shards = parameter.axes.partition_axis < 0 ? 1 : source.shards.size();
    for (const SourceTensor& shard : std::span(source.shards).first(shards)) {
      const TorchFile& file = *checkpoint_.files()[static_cast<size_t>(shard.file)].file;
      MEG_RETURN_IF_ERROR(file.check_crc(shard.view.storage)
                              .with_prefix(parameter.name + " (" + source.kind + ")"));
    }
    return Status();
  }

  const LogicalTensor* source_of(const LogicalParameter& parameter,
                                 const TrainingTensorTarget& target) const {
    const LogicalTensor* weight = parameter.tensor("weight");
    const LogicalTensor* master = options_.use_masters ? parameter.tensor("fp32_param") : nullptr;
    if (target.kind == "fp32_param") return master != nullptr ? master : weight;
    if (target.kind != "weight") return parameter.tensor(target.kind);
    return master != nullptr && weight->dtype != target.dtype ? master : weight;
  }

  const MegatronCheckpoint& checkpoint_;
  const TrainingTensorOptions& options_;
  std::unordered_map<std::string_view, const LogicalParameter*> by_name_;
};

}  // namespace

Status read_training_tensors(const MegatronCheckpoint& checkpoint,
                             std::span<const TrainingTensorTarget> targets,
                             const TrainingTensorOptions& options) {
  try {
    const TensorsReader reader(checkpoint, options);
    for (const TrainingTensorTarget& target : targets) MEG_RETURN_IF_ERROR(reader.read(target));
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "{}: out of memory",
                      checkpoint.folder().folder);
  }
  return Status();
}

}  // namespace meg::checkpoint
