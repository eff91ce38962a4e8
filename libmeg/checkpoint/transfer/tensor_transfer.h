#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// The content of rows past the source's end.
enum class PaddingFill : uint8_t {
  kZero,           ///< Adam's moments of new padding rows.
  kRepeatLastRow,  ///< Weights and masters: the source's last row again.
};

/// The part of a tensor that a sink receives: a box of its axes, or a flat range of such a box,
/// always in the order of the axes.
struct TransferTarget {
  /// Elements [first, first + count) of the box in row-major order.
  struct FlatRange {
    int64_t first = 0, count = 0;
  };

  int sink = 0;  ///< Index into the sinks passed to run_transfers().
  Box box;
  std::optional<FlatRange> range = {};  ///< nullopt: the whole box.
  uint64_t offset = 0;                  ///< First byte in the sink.

  int64_t elements() const { return range.has_value() ? range->count : box.elements(); }
};

/// The copying of one tensor from all of its source pieces to all of its targets.
///
/// Sources are disjoint and together cover the box of `axes` whose first axis has source_extent
/// rows. Targets may overlap (replicas, the tied copy) and lie inside `axes`; rows past
/// source_extent are filled. A transfer without sources, of source_extent 0, fills its targets with
/// zeros.
struct TensorTransfer {
  std::string name;           ///< For messages: "decoder.layers.3.mlp.linear_fc1.weight exp_avg".
  std::vector<int64_t> axes;  ///< Sizes of the targets' axes; at least one.
  int64_t source_extent = 0;  ///< May exceed axes[0]: the rows past it are dropped.
  PaddingFill fill = PaddingFill::kZero;
  /// Differs from the sources' only among float16, bfloat16 and float32.
  DType target_dtype = DType::kFloat32;
  std::vector<Piece> sources;  ///< All of one dtype.
  std::vector<TransferTarget> targets;

  /// Dtype of the sources; the targets' dtype if there are none.
  DType source_dtype() const { return sources.empty() ? target_dtype : sources[0].source->dtype(); }

  /// The box that contains all sources and targets: `axes` with the larger number of rows.
  std::vector<int64_t> spanned_axes() const;
};

}  // namespace meg::checkpoint
