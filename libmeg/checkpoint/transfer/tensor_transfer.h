#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"

namespace meg::checkpoint {

/// What rows past the source's end become.
enum class PaddingFill : uint8_t {
  kZero,           ///< Adam's moments of new padding rows.
  kRepeatLastRow,  ///< Weights and masters: the source's last row again.
};

/// A source tensor and the stretch of the cut axis that it holds.
struct TransferSource {
  int file = 0;  ///< Index into TransferPlan::sources.
  TensorView view;
  int64_t begin = 0, end = 0;
  /// Order of `axes` in the tensor's memory, outermost first; empty: as they stand.
  std::vector<int> memory_order;
};

/// A target storage and the stretch of the cut axis that it gets, always in the order of `axes`.
struct TransferTarget {
  int file = 0;     ///< Index into TransferPlan::targets.
  int storage = 0;  ///< Of that file; it holds exactly this tensor.
  int64_t begin = 0, end = 0;
};

/// One tensor on its way from all of its source shards to all of its target shards.
///
/// It is a box of `axes` (row-major), cut along axes[cut_axis]. Sources are disjoint and together
/// hold [0, source_extent) of the cut axis; targets may overlap (replicas, the tied copy) and reach
/// up to axes[cut_axis]; what lies past source_extent is filled (cut_axis is 0 then). A replicated
/// tensor has one source and targets that all take the whole.
struct TensorTransfer {
  std::string name;  ///< For messages: "decoder.layers.3.mlp.linear_fc1.weight exp_avg".
  std::vector<int64_t> axes;
  int cut_axis = 0;
  int64_t source_extent = 0;  ///< May exceed axes[cut_axis]: the rows past it are dropped.
  PaddingFill fill = PaddingFill::kZero;
  DType source_dtype = DType::kFloat32;
  DType target_dtype = DType::kFloat32;  ///< Differs only among float16, bfloat16 and float32.
  std::vector<TransferSource> sources;   ///< Ascending by begin.
  std::vector<TransferTarget> targets;
};

/// A file to be written.
struct TransferTargetFile {
  std::string path;  ///< Relative to the iteration folder: mp_rank_00/model_optim_rng.pt.
  TorchFileContent content;
  TorchFileLayout layout;
};

/// All copies between two sets of torch files. Every target storage without literal content is the
/// target of exactly one transfer.
struct TransferPlan {
  std::vector<std::shared_ptr<const TorchFile>> sources;
  std::vector<TransferTargetFile> targets;
  std::vector<TensorTransfer> transfers;

  /// Bytes of source tensors that transfers read, and of all target files.
  int64_t source_bytes() const;
  int64_t target_bytes() const;
};

}  // namespace meg::checkpoint
