#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libmeg/checkpoint/convert/internal/target_layout.h"
#include "libmeg/checkpoint/convert/internal/target_tree.h"
#include "tests/checkpoint/convert/reshard_cases.h"

namespace meg::checkpoint {
namespace {

using ::testing::IsEmpty;

// TP2 PP2, two layers a stage.
const std::string kSmall = MEG_SOURCE_DIR "/testdata/checkpoint";

/// The same name with another number after "layers.".
std::string with_number(const std::string& name, int64_t number) {
  const size_t begin = name.find("layers.") + 7;
  return fmt::format("{}{}{}", name.substr(0, begin), number, name.substr(name.find('.', begin)));
}

/// Moves the second of the first stage's layers to the second stage.
void make_uneven(TargetLayout* layout) {
  std::vector<TargetEntry>& first = layout->stages[0].chunks[0];
  std::vector<TargetEntry>& second = layout->stages[1].chunks[0];
  for (TargetEntry& entry : second) {
    if (!entry.parameter->layer.has_value()) continue;
    entry.name = with_number(entry.name, *entry.parameter->layer - 1);
  }
  std::vector<TargetEntry> kept, moved;
  for (TargetEntry& entry : first) {
    const bool moves = entry.parameter->layer == 1;
    if (moves) entry.name = with_number(entry.name, 0);
    (moves ? moved : kept).push_back(entry);
  }
  moved.insert(moved.end(), second.begin(), second.end());
  first = kept;
  second = moved;
}

/// Saves testdata/checkpoint with one layer on the first stage and three on the second.
void save_uneven(const std::string& save) {
  const auto checkpoint = test::open_checkpoint(kSmall);
  ASSERT_TRUE(checkpoint.has_value());
  const ReshardOptions options = test::to_layout(2, 2);
  Result<ReshardPlan> plan = plan_reshard(*checkpoint, options);
  Result<TargetLayout> layout = lay_out_target(*checkpoint, options);
  ASSERT_TRUE(plan.has_value() && layout.has_value());
  make_uneven(&*layout);
  TransferBuilder transfers(*layout, std::nullopt);
  for (int index = 0; index < 4; ++index) {
    TargetFile file(*checkpoint, &transfers, layout->ranks.place(index % 2));
    ASSERT_TRUE(add_tree(*checkpoint, *layout, options, index / 2, &file).ok());
    TransferTargetFile& target = plan->transfers.targets[static_cast<size_t>(index)];
    Result<TransferTargetFile> made = file.finish(target.path);
    ASSERT_TRUE(made.has_value());
    target = *std::move(made);
  }
  plan->transfers.transfers = transfers.take();
  const Status saved = save_reshard(*checkpoint, *plan, save, {});
  ASSERT_TRUE(saved.ok()) << saved.message();
}

int layers_of(const TorchFile& file) {
  int count = 0;
  for (const std::string& key : test::root_of(file).at("model/language_model/encoder").keys()) {
    if (key.ends_with("input_layernorm.weight")) ++count;
  }
  return count;
}

TEST(ReshardUneven, StaysWhereThePipelineStays) {
  const test::TempFolder folder;
  save_uneven(folder.path("uneven"));
  test::reshard(folder.path("uneven"), folder.path("saved"), test::to_layout(4, 2));
  const test::Ranks ranks = test::open_ranks(folder.path("saved"));
  EXPECT_EQ(layers_of(*ranks.at("mp_rank_03_000")), 1);
  EXPECT_EQ(layers_of(*ranks.at("mp_rank_03_001")), 3);
}

TEST(ReshardUneven, BecomesEvenInAnotherPipelineWithNothingLost) {
  for (const auto& [tensor, pipeline, chunks] :
       {std::tuple{1, 1, 1}, std::tuple{2, 4, 1}, std::tuple{1, 2, 2}}) {
    const test::TempFolder folder;
    save_uneven(folder.path("uneven"));
    const ReshardOptions options = test::to_layout(tensor, pipeline, chunks);
    test::reshard(folder.path("uneven"), folder.path("from_uneven"), options);
    test::reshard(kSmall, folder.path("from_even"), options);
    const test::Ranks found = test::open_ranks(folder.path("from_uneven"));
    for (const auto& [name, file] : test::open_ranks(folder.path("from_even"))) {
      SCOPED_TRACE(name);
      const test::TreeNode want = test::root_of(*file);
      for (const char* key : {"model", "model0", "model1", "optimizer", "opt_param_scheduler"}) {
        EXPECT_THAT(test::differences(test::root_of(*found.at(name)).at(key), want.at(key)),
                    IsEmpty())
            << key;
      }
    }
  }
}

}  // namespace
}  // namespace meg::checkpoint
