#include "libmeg/model/pipeline_layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libmeg/model/virtual_stages.h"

namespace meg::model {
namespace {

ParallelSizes sizes_of(int64_t stages, int64_t chunks = 1, PipelineSplit split = {}) {
  return {.pipeline_model_parallel_size = stages,
          .virtual_pipeline_model_parallel_size = chunks,
          .split = std::move(split)};
}

PipelineSplit told(std::string layout) {
  return {.pipeline_model_parallel_layout = std::move(layout)};
}

/// The layers of each chunk in the model's order, after a check that they follow one another.
std::vector<int64_t> layers_of(int64_t num_layers, const ParallelSizes& sizes) {
  const Result<PipelineLayout> layout = PipelineLayout::create(num_layers, sizes);
  EXPECT_TRUE(layout) << layout.status().message();
  if (!layout) return {};
  std::vector<int64_t> layers;
  int64_t next = 0;
  for (int64_t chunk = 0; chunk < layout->chunks(); ++chunk) {
    for (int64_t stage = 0; stage < layout->stages(); ++stage) {
      EXPECT_EQ(layout->first_layer(stage, chunk), next);
      layers.push_back(layout->layers(stage, chunk));
      next += layers.back();
      const size_t place = layers.size();
      const auto all = static_cast<size_t>(layout->stages() * layout->chunks());
      EXPECT_EQ(layout->is_first(stage, chunk), place == 1);
      EXPECT_EQ(layout->is_last(stage, chunk), place == all);
    }
  }
  EXPECT_EQ(next, num_layers);
  return layers;
}

std::string refusal(int64_t num_layers, const ParallelSizes& sizes) {
  return PipelineLayout::create(num_layers, sizes).status().message();
}

TEST(PipelineLayout, EvenStagesHaveAsManyLayers) {
  EXPECT_EQ(layers_of(24, sizes_of(1)), std::vector<int64_t>{24});
  EXPECT_EQ(layers_of(24, sizes_of(4)), std::vector<int64_t>(4, 6));
  EXPECT_EQ(layers_of(24, sizes_of(4, 3)), std::vector<int64_t>(12, 2));
  EXPECT_EQ(layers_of(6, sizes_of(3, 2)), std::vector<int64_t>(6, 1));
}

TEST(PipelineLayout, EvenStagesMustDivideTheLayers) {
  EXPECT_EQ(refusal(12, sizes_of(5)),
            "pipeline-model-parallel-size: 5 does not divide num_layers 12; sizes up to 64 that "
            "do: 1, 2, 3, 4, 6, 12");
  EXPECT_NE(refusal(12, sizes_of(-1)), "");
  EXPECT_NE(refusal(12, sizes_of(0)), "");
  EXPECT_NE(refusal(12, sizes_of(24)), "");
  EXPECT_EQ(refusal(12, sizes_of(1, 2)),
            "pipeline-model-parallel-size: 1 with 2 virtual stages each: expected at least 2 "
            "whose product divides num_layers 12; sizes up to 64 that do: 2, 3, 6");
  EXPECT_EQ(refusal(12, sizes_of(2, 0)),
            "virtual-pipeline-model-parallel-size: expected 1 to 12 (num_layers), found 0");
  EXPECT_NE(refusal(12, sizes_of(2, 13)), "");
}

TEST(PipelineLayout, EmbeddingAndLossTakePlacesOfLayers) {
  const PipelineSplit both = {.account_for_embedding_in_pipeline_split = true,
                              .account_for_loss_in_pipeline_split = true};
  EXPECT_EQ(layers_of(6, sizes_of(4, 1, both)), (std::vector<int64_t>{1, 2, 2, 1}));
  EXPECT_EQ(layers_of(6, sizes_of(2, 2, both)), (std::vector<int64_t>{1, 2, 2, 1}));
  EXPECT_EQ(layers_of(7, sizes_of(2, 1, {.account_for_embedding_in_pipeline_split = true})),
            (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(layers_of(2, sizes_of(2, 2, both)), (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(layers_of(5, sizes_of(1, 1, both)), std::vector<int64_t>{5});
  EXPECT_EQ(refusal(8, sizes_of(4, 1, both)),
            "pipeline-model-parallel-size: 4 does not divide num_layers 8 and the embedding and "
            "the loss; sizes up to 64 that do: 1, 2, 5, 10");
}

TEST(PipelineLayout, FirstAndLastStageHaveLayersOfTheirOwn) {
  const PipelineSplit first = {.decoder_first_pipeline_num_layers = 2},
                      last = {.decoder_last_pipeline_num_layers = 2},
                      both = {.decoder_first_pipeline_num_layers = 2,
                              .decoder_last_pipeline_num_layers = 4};
  EXPECT_EQ(layers_of(8, sizes_of(3, 1, first)), (std::vector<int64_t>{2, 3, 3}));
  EXPECT_EQ(layers_of(8, sizes_of(3, 1, last)), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(layers_of(6, sizes_of(2, 1, both)), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(layers_of(12, sizes_of(3, 2, both)), (std::vector<int64_t>{1, 3, 2, 1, 3, 2}));
  EXPECT_EQ(layers_of(2, sizes_of(1, 1, first)), std::vector<int64_t>{2});
  EXPECT_EQ(
      refusal(9, sizes_of(3, 1, first)),
      "decoder-first-pipeline-num-layers 2, decoder-last-pipeline-num-layers None: expected "
      "layers for the other stages that divide evenly among them of num_layers 9 and 3 stages with "
      "1 virtual stages each");
  for (const ParallelSizes& sizes :
       {sizes_of(1, 1, both), sizes_of(1, 1, first), sizes_of(2, 1, both), sizes_of(2, 2, both),
        sizes_of(3, 4, both), sizes_of(1, 2, first), sizes_of(0, 1, first), sizes_of(-3, 1, last),
        sizes_of(3, 1, {.decoder_first_pipeline_num_layers = 0}),
        sizes_of(3, 1, {.decoder_last_pipeline_num_layers = 9})}) {
    EXPECT_NE(refusal(8, sizes), "");
  }
}

TEST(PipelineLayout, ALayoutSaysWhatEachStageHolds) {
  EXPECT_EQ(layers_of(6, sizes_of(4, 1, told("E|t*3|(t|)*1ttL"))),
            (std::vector<int64_t>{0, 3, 1, 2}));
  EXPECT_EQ(layers_of(6, sizes_of(2, 2, told("E,t*2|t|(t)*2|t,L"))),
            (std::vector<int64_t>{2, 1, 2, 1}));
  EXPECT_EQ(layers_of(4, sizes_of(2, 2, told("Ettt|*3tL"))), (std::vector<int64_t>{3, 0, 0, 1}));
  EXPECT_EQ(layers_of(62, sizes_of(16, 2, told("Et*3|(tt|)*29,t|L"))).size(), 32U);
  EXPECT_EQ(layers_of(3, sizes_of(1, 1, told("EtttL"))), std::vector<int64_t>{3});
}

TEST(PipelineLayout, LayoutsOfOtherKindsAreRefused) {
  EXPECT_EQ(refusal(4, sizes_of(2, 1, told("Ettt|ttL"))),
            "pipeline-model-parallel-layout: expected as many t as num_layers 4, found 5");
  EXPECT_EQ(refusal(4, sizes_of(2, 1, told("Ett|ttmL"))),
            "pipeline-model-parallel-layout \"Ett|ttmL\": m: multi-token prediction is not "
            "supported yet");
  EXPECT_EQ(refusal(4, sizes_of(3, 1, told("|Ett|ttL"))),
            "pipeline-model-parallel-layout: expected one E, with which the first stage begins, "
            "and one L, with which the last one ends, found \"|Ett|ttL\"");
  EXPECT_EQ(refusal(4, sizes_of(3, 1, told("Ett|ttL"))),
            "pipeline-model-parallel-layout: expected 3 pipeline stages with 1 virtual stages "
            "each, found 2 in all");
  for (const char* layout : {"", "ttttL", "Etttt", "EEttttL", "EttttLL", "tEtttL", "Ett|tt|L|",
                             "E(t|*2ttL", "Et*|tttL", "Et*99999999999999999999L", "E(t*65536|)*9L",
                             "E(tttt)*L", "Ettttl", "E tttt L", "()*3", "(", "*", "t*2"}) {
    EXPECT_NE(refusal(4, sizes_of(1, 1, told(layout))), "") << layout;
  }
}

TEST(PipelineLayout, OneWayToSplitIsGiven) {
  PipelineSplit split = told("Ett|ttL");
  split.decoder_first_pipeline_num_layers = 2;
  EXPECT_NE(refusal(4, sizes_of(2, 1, split)).find("cannot be combined"), std::string::npos);
  split = {.decoder_last_pipeline_num_layers = 2, .account_for_loss_in_pipeline_split = true};
  EXPECT_NE(refusal(4, sizes_of(2, 1, split)).find("cannot be combined"), std::string::npos);
}

TEST(VirtualStages, LayersOrStagesSayHowMany) {
  EXPECT_EQ(*VirtualStages().size(24, sizes_of(4)), 1);
  EXPECT_EQ(*(VirtualStages{.num_layers_per_virtual_pipeline_stage = 2}.size(24, sizes_of(4))), 3);
  EXPECT_EQ(*(VirtualStages{.num_layers_per_virtual_pipeline_stage = 6}.size(24, sizes_of(4))), 1);
  EXPECT_EQ(*(VirtualStages{.num_virtual_stages_per_pipeline_rank = 2}.size(24, sizes_of(4))), 2);
}

TEST(VirtualStages, FollowFromAnUnevenSplit) {
  const ParallelSizes accounted = sizes_of(4, 1, {.account_for_loss_in_pipeline_split = true});
  EXPECT_EQ(*(VirtualStages{.num_layers_per_virtual_pipeline_stage = 2}.size(23, accounted)), 3);
  const ParallelSizes ends = sizes_of(4, 1, {.decoder_first_pipeline_num_layers = 4});
  EXPECT_EQ(*(VirtualStages{.num_virtual_stages_per_pipeline_rank = 2}.size(22, ends)), 2);
  EXPECT_FALSE((VirtualStages{.num_layers_per_virtual_pipeline_stage = 2}.size(22, ends)));
  EXPECT_EQ(*VirtualStages().size(4, sizes_of(2, 1, told("Et|t|t|tL"))), 2);
  EXPECT_EQ(VirtualStages().size(4, sizes_of(3, 1, told("Et|t|t|tL"))).status().message(),
            "`pipeline_model_parallel_layout`: expected a multiple of the 3 pipeline stages, found "
            "4 stages");
  EXPECT_EQ((VirtualStages{.num_virtual_stages_per_pipeline_rank = 2}
                 .size(4, sizes_of(2, 1, told("Et|t|t|tL")))
                 .status()
                 .message()),
            "`pipeline_model_parallel_layout`: cannot be combined with "
            "`num_virtual_stages_per_pipeline_rank`");
}

TEST(VirtualStages, RefusesWhatDoesNotDivideTheLayersOfAStage) {
  const std::string expected = ": expected a divisor of the 6 layers of a stage, found 4";
  const ParallelSizes sizes = sizes_of(4);
  EXPECT_EQ((VirtualStages{.num_layers_per_virtual_pipeline_stage = 4}
                 .size(24, sizes)
                 .status()
                 .message()),
            "`num_layers_per_virtual_pipeline_stage`" + expected);
  EXPECT_EQ(
      (VirtualStages{.num_virtual_stages_per_pipeline_rank = 4}.size(24, sizes).status().message()),
      "`num_virtual_stages_per_pipeline_rank`" + expected);
  EXPECT_FALSE((VirtualStages{.num_virtual_stages_per_pipeline_rank = 1}.size(2, sizes)));
  EXPECT_EQ((VirtualStages{2, 2}.size(24, sizes).status().message()),
            "`num_virtual_stages_per_pipeline_rank`: cannot be combined with "
            "`num_layers_per_virtual_pipeline_stage`");
}

}  // namespace
}  // namespace meg::model
