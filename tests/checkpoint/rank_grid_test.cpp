// The processes that save rank files, where experts are divided over fewer ranks than the rest of
// the model.

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace meg::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ranks = std::vector<std::pair<int64_t, int64_t>>;  // tensor rank and expert rank

Ranks ranks_of(const RankGrid& grid) {
  Ranks ranks;
  for (int64_t i = 0; i < grid.size(); ++i) {
    ranks.emplace_back(grid.place(i).tensor_rank, grid.place(i).expert_rank);
  }
  return ranks;
}

TEST(RankGrid, HasAllPairsIfExpertsAreDividedLikeTheRest) {
  const auto grid = RankGrid::create(2, 3, 2);
  ASSERT_TRUE(grid) << grid.status().message();
  EXPECT_FALSE(grid->divides_experts_apart());
  EXPECT_EQ(grid->files_of_tensor_rank(), 3);
  EXPECT_EQ(ranks_of(*grid), (Ranks{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(grid->place(4), (RankPlace{1, 1, 1}));
}

TEST(RankGrid, HasTheFirstProcessesOfAStage) {
  // As processes 0 to 3 of a run with tensor 2, expert tensor 1 and expert 4.
  const auto grid = RankGrid::create(2, 4, 1);
  ASSERT_TRUE(grid) << grid.status().message();
  EXPECT_EQ(ranks_of(*grid), (Ranks{{0, 0}, {0, 2}, {1, 1}, {1, 3}}));
  // Tensor 4, expert tensor 2, expert 2: both parts of each expert.
  const auto other = RankGrid::create(4, 2, 2);
  ASSERT_TRUE(other) << other.status().message();
  EXPECT_EQ(ranks_of(*other), (Ranks{{0, 0}, {1, 0}, {2, 1}, {3, 1}}));
  EXPECT_EQ(other->place(3).expert_tensor_rank, 1);
}

TEST(RankGrid, FindsEveryPartOfAnExpert) {
  for (int64_t tensor = 1; tensor <= 8; ++tensor) {
    for (int64_t expert = 1; expert <= 8; ++expert) {
      for (int64_t part = 1; part <= 8; ++part) {
        const auto grid = RankGrid::create(tensor, expert, part);
        EXPECT_EQ(grid.has_value(), part <= tensor && part * expert % tensor == 0);
        if (!grid) continue;
        std::set<std::pair<int64_t, int64_t>> names;
        int64_t first = 0;
        for (int64_t i = 0; i < grid->size(); ++i) {
          const RankPlace place = grid->place(i);
          EXPECT_EQ(grid->index_of(place.expert_rank, place.expert_tensor_rank), i);
          EXPECT_TRUE(names.emplace(place.tensor_rank, place.expert_rank).second);
          const bool is_first = i % grid->files_of_tensor_rank() == 0;
          EXPECT_EQ(grid->is_first_of_tensor_rank(place), is_first);
          first += is_first ? 1 : 0;
        }
        EXPECT_EQ(first, tensor);
      }
    }
  }
}

TEST(RankGrid, RefusesWhatNamesOfFilesCannotTellApart) {
  const auto error = [](int64_t tensor, int64_t expert, int64_t part) {
    return RankGrid::create(tensor, expert, part).status().message();
  };
  EXPECT_THAT(error(1, 2, 2), HasSubstr("expert_tensor_parallel_size 2 above"));
  EXPECT_THAT(error(4, 2, 1), HasSubstr("a multiple of tensor_model_parallel_size 4"));
  EXPECT_THAT(error(0, 1, 1), HasSubstr("from 1 to 1048576, found tensor 0"));
  EXPECT_THAT(error(1 << 20, 1 << 20, 1 << 20), HasSubstr("at most 1048576 ranks"));
}

}  // namespace
}  // namespace meg::checkpoint
