#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/parallel_sizes.h"

namespace meg::model {

/// The settings of virtual pipeline stages on a command line: at most one of the first two.
/// Mirrors Megatron-LM megatron/training/arguments.py: validate_args.
struct VirtualStages {
  std::optional<int64_t> num_layers_per_virtual_pipeline_stage = std::nullopt;
  std::optional<int64_t> num_virtual_stages_per_pipeline_rank = std::nullopt;
  std::optional<int64_t> microbatch_group_size_per_vp_stage = std::nullopt;

  void take_fields(megatron::FieldReader& args) {
    args.take("num_layers_per_virtual_pipeline_stage", num_layers_per_virtual_pipeline_stage);
    args.take("num_virtual_stages_per_pipeline_rank", num_virtual_stages_per_pipeline_rank);
    args.take("microbatch_group_size_per_vp_stage", microbatch_group_size_per_vp_stage);
  }

  /// The number of virtual stages per pipeline stage, with the layers split as `sizes` says; 1:
  /// none, even if one is requested. kInvalidArgument if it is given twice or does not divide the
  /// layers, or if a layout's text is invalid.
  Result<int64_t> size(int64_t num_layers, const ParallelSizes& sizes) const;
};

}  // namespace meg::model
