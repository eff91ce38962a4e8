#include "libmeg/model/virtual_stages.h"

namespace meg::model {
namespace {

Status check_divides(const char* flag, int64_t layers, int64_t found) {
  if (layers > 0 && found > 0 && layers % found == 0) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a divisor of the {} layers of a stage, found {}", flag, layers,
                    found);
}

}  // namespace

Result<int64_t> VirtualStages::size(int64_t num_layers,
                                    int64_t pipeline_model_parallel_size) const {
  const auto& layers_of_each = num_layers_per_virtual_pipeline_stage;
  const auto& stages = num_virtual_stages_per_pipeline_rank;
  if (layers_of_each.has_value() && stages.has_value()) {
    return Status(StatusCode::kInvalidArgument,
                  "--num-virtual-stages-per-pipeline-rank: expected it without "
                  "--num-layers-per-virtual-pipeline-stage, found both");
  }
  const int64_t layers = num_layers / pipeline_model_parallel_size;
  if (layers_of_each.has_value()) {
    MEG_RETURN_IF_ERROR(
        check_divides("--num-layers-per-virtual-pipeline-stage", layers, *layers_of_each));
    return layers / *layers_of_each;
  }
  if (!stages.has_value()) return 1;
  MEG_RETURN_IF_ERROR(check_divides("--num-virtual-stages-per-pipeline-rank", layers, *stages));
  return *stages;
}

}  // namespace meg::model
