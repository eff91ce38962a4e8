#include "libmeg/model/pipeline_layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libmeg/model/virtual_stages.h"

namespace meg::model {
namespace {

TEST(PipelineLayout, ChunksOfAStageAreApartByTheLayersOfAWholeRound) {
  const PipelineLayout layout = {6, 3, 2};
  EXPECT_EQ(layout.layers_per_chunk(), 1);
  EXPECT_EQ(layout.first_layer(0, 0), 0);
  EXPECT_EQ(layout.first_layer(0, 1), 3);
  EXPECT_EQ(layout.first_layer(2, 1), 5);
}

TEST(PipelineLayout, EveryLayerIsHeldOnce) {
  for (const PipelineLayout& layout :
       {PipelineLayout{24, 1, 1}, {24, 4, 1}, {24, 4, 3}, {24, 2, 12}, {6, 3, 2}}) {
    std::vector<int> holders(static_cast<size_t>(layout.num_layers));
    int first = 0;
    int last = 0;
    for (int64_t stage = 0; stage < layout.pipeline_model_parallel_size; ++stage) {
      for (int64_t chunk = 0; chunk < layout.virtual_pipeline_model_parallel_size; ++chunk) {
        for (int64_t i = 0; i < layout.layers_per_chunk(); ++i) {
          ++holders.at(static_cast<size_t>(layout.first_layer(stage, chunk) + i));
        }
        first += layout.is_first(stage, chunk) ? 1 : 0;
        last += layout.is_last(stage, chunk) ? 1 : 0;
      }
    }
    EXPECT_EQ(holders, std::vector<int>(holders.size(), 1));
    EXPECT_EQ(first, 1);
    EXPECT_EQ(last, 1);
  }
}

TEST(VirtualStages, LayersOrStagesSayHowMany) {
  EXPECT_EQ(*VirtualStages().size(24, 4), 1);
  EXPECT_EQ(*(VirtualStages{.num_layers_per_virtual_pipeline_stage = 2}.size(24, 4)), 3);
  EXPECT_EQ(*(VirtualStages{.num_layers_per_virtual_pipeline_stage = 6}.size(24, 4)), 1);
  EXPECT_EQ(*(VirtualStages{.num_virtual_stages_per_pipeline_rank = 2}.size(24, 4)), 2);
}

TEST(VirtualStages, RefusesWhatDoesNotDivideTheLayersOfAStage) {
  const std::string expected = ": expected a divisor of the 6 layers of a stage, found 4";
  EXPECT_EQ(
      (VirtualStages{.num_layers_per_virtual_pipeline_stage = 4}.size(24, 4).status().message()),
      "--num-layers-per-virtual-pipeline-stage" + expected);
  EXPECT_EQ(
      (VirtualStages{.num_virtual_stages_per_pipeline_rank = 4}.size(24, 4).status().message()),
      "--num-virtual-stages-per-pipeline-rank" + expected);
  EXPECT_FALSE((VirtualStages{.num_virtual_stages_per_pipeline_rank = 1}.size(2, 4).has_value()));
  EXPECT_EQ((VirtualStages{2, 2}.size(24, 4).status().message()),
            "--num-virtual-stages-per-pipeline-rank: expected it without "
            "--num-layers-per-virtual-pipeline-stage, found both");
}

}  // namespace
}  // namespace meg::model
