#include "libmeg/model/virtual_stages.h"

#include <string>
#include <vector>

#include "libmeg/model/internal/pipeline_layout_text.h"

namespace meg::model {
namespace {

constexpr const char* kLayers = "`num_layers_per_virtual_pipeline_stage`";
constexpr const char* kStages = "`num_virtual_stages_per_pipeline_rank`";

Status found_both(const char* field, const char* other) {
  return make_error(StatusCode::kInvalidArgument, "{}: cannot be combined with {}", field, other);
}

Status check_divides(const char* field, int64_t layers, int64_t found) {
  if (layers > 0 && found > 0 && layers % found == 0) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a divisor of the {} layers of a stage, found {}", field, layers,
                    found);
}

/// Returns as many as the layout has for each pipeline stage.
Result<int64_t> stages_of_layout(const std::string& text, int64_t pipeline_model_parallel_size) {
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> stages, parse_pipeline_layout(text));
  const auto found = static_cast<int64_t>(stages.size());
  if (found % pipeline_model_parallel_size == 0) return found / pipeline_model_parallel_size;
  return make_error(StatusCode::kInvalidArgument,
                    "`pipeline_model_parallel_layout`: expected a multiple of the {} pipeline "
                    "stages, found {} stages",
                    pipeline_model_parallel_size, found);
}

}  // namespace

Result<int64_t> VirtualStages::size(int64_t num_layers, const ParallelSizes& sizes) const {
  const auto& layers_of_each = num_layers_per_virtual_pipeline_stage;
  const auto& stages = num_virtual_stages_per_pipeline_rank;
  if (layers_of_each.has_value() && stages.has_value()) return found_both(kStages, kLayers);
  const PipelineSplit& split = sizes.split;
  if (split.pipeline_model_parallel_layout.has_value()) {
    constexpr const char* kLayout = "`pipeline_model_parallel_layout`";
    if (layers_of_each.has_value()) return found_both(kLayout, kLayers);
    if (stages.has_value()) return found_both(kLayout, kStages);
    return stages_of_layout(*split.pipeline_model_parallel_layout,
                            sizes.pipeline_model_parallel_size);
  }
  const bool has_ends = split.decoder_first_pipeline_num_layers.has_value() ||
                        split.decoder_last_pipeline_num_layers.has_value();
  const int64_t layers = split.places(num_layers) / sizes.pipeline_model_parallel_size;
  if (layers_of_each.has_value()) {
    // Stages have layers of different numbers then.
    if (has_ends) {
      return found_both(kLayers,
                        "`decoder_first_pipeline_num_layers` and "
                        "`decoder_last_pipeline_num_layers`, beside which "
                        "`num_virtual_stages_per_pipeline_rank` is given");
    }
    MEG_RETURN_IF_ERROR(check_divides(kLayers, layers, *layers_of_each));
    return layers / *layers_of_each;
  }
  if (!stages.has_value()) return 1;
  if (!has_ends) MEG_RETURN_IF_ERROR(check_divides(kStages, layers, *stages));
  return *stages;
}

}  // namespace meg::model
