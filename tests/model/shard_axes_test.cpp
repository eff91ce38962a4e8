#include "libmeg/model/shard_axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

namespace meg::model {
namespace {

using Shape = std::vector<int64_t>;
using testing::ElementsAre;

GptConfig config_of(int64_t heads, int64_t groups, int64_t head_size, bool gated = false) {
  GptConfig config;
  config.num_layers = 2;
  config.num_attention_heads = heads;
  config.num_query_groups = groups;
  config.kv_channels = head_size;
  config.hidden_size = heads * head_size;
  config.ffn_hidden_size = 4 * config.hidden_size;
  config.gated_linear_unit = gated;
  return config;
}

ShardAxes axes_of(Partition partition, const Shape& shape, int64_t ranks, const GptConfig& config,
                  double version = 3) {
  const auto axes = shard_axes(partition, shape, ranks, config, version);
  EXPECT_TRUE(axes) << axes.error().message();
  return axes ? *axes : ShardAxes();
}

/// The merged tensor's row-major elements, each holding its own number, as rank `rank`'s shard has
/// them in memory: what ShardAxes claims.
std::vector<int64_t> shard_elements(const ShardAxes& axes, int64_t ranks, int64_t rank) {
  const size_t count = axes.sizes.size();
  Shape sizes = axes.sizes;  // of the shard, in logical order
  if (axes.partition_axis >= 0) sizes[static_cast<size_t>(axes.partition_axis)] /= ranks;
  const int64_t total =
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < total; ++i) {
    Shape index(count);
    int64_t rest = i;
    for (size_t k = count; k-- > 0;) {  // the memory's innermost axis first
      const auto axis = static_cast<size_t>(axes.memory_order[k]);
      index[axis] = rest % sizes[axis];
      rest /= sizes[axis];
    }
    int64_t merged = 0;
    for (size_t axis = 0; axis < count; ++axis) {
      const bool is_cut = static_cast<int>(axis) == axes.partition_axis;
      merged = merged * axes.sizes[axis] + index[axis] + (is_cut ? rank * sizes[axis] : 0);
    }
    elements.push_back(merged);
  }
  return elements;
}

TEST(ShardAxes, FollowThePartition) {
  const GptConfig config = config_of(4, 4, 8, true);
  ShardAxes axes = axes_of(Partition::kReplicated, {32}, 2, config);
  EXPECT_THAT(axes.sizes, ElementsAre(32));
  EXPECT_EQ(axes.partition_axis, -1);
  axes = axes_of(Partition::kRows, {64, 32}, 2, config);
  EXPECT_THAT(axes.sizes, ElementsAre(128, 32));
  EXPECT_EQ(axes.partition_axis, 0);
  axes = axes_of(Partition::kColumns, {32, 16}, 2, config);
  EXPECT_THAT(axes.sizes, ElementsAre(32, 32));
  EXPECT_EQ(axes.partition_axis, 1);
  axes = axes_of(Partition::kVocabulary, {152, 32}, 2, config);
  EXPECT_THAT(axes.sizes, ElementsAre(304, 32));
  EXPECT_EQ(axes.partition_axis, 0);
  axes = axes_of(Partition::kQkv, {48, 32}, 2, config);
  EXPECT_THAT(axes.sizes, ElementsAre(96, 32));
  EXPECT_EQ(axes.partition_axis, 0);
  axes = axes_of(Partition::kGated, {128, 32}, 2, config);
  EXPECT_THAT(axes.sizes, ElementsAre(2, 128, 32));
  EXPECT_EQ(axes.partition_axis, 1);
  axes = axes_of(Partition::kGated, {128, 32}, 2, config_of(4, 4, 8));
  EXPECT_THAT(axes.sizes, ElementsAre(256, 32));
  EXPECT_EQ(axes.partition_axis, 0);
}

TEST(ShardAxes, HoldForBiases) {
  const GptConfig config = config_of(4, 2, 8, true);
  EXPECT_THAT(axes_of(Partition::kRows, {64}, 2, config).sizes, ElementsAre(128));
  EXPECT_THAT(axes_of(Partition::kVocabulary, {152}, 2, config).sizes, ElementsAre(304));
  EXPECT_THAT(axes_of(Partition::kQkv, {32}, 2, config).sizes, ElementsAre(64));
  EXPECT_THAT(axes_of(Partition::kGated, {128}, 2, config).sizes, ElementsAre(2, 128));
  EXPECT_THAT(axes_of(Partition::kQkv, {48}, 2, config_of(4, 4, 8), 1).sizes, ElementsAre(4, 3, 8));
}

TEST(ShardAxes, CountDimensionsBehindTheSecondAsOne) {
  const GptConfig config = config_of(4, 4, 8);
  EXPECT_THAT(axes_of(Partition::kRows, {4, 3, 5}, 2, config).sizes, ElementsAre(8, 15));
  EXPECT_THAT(axes_of(Partition::kColumns, {4, 3, 5, 7}, 2, config).sizes, ElementsAre(4, 6, 35));
  EXPECT_THAT(axes_of(Partition::kReplicated, {4, 3, 5}, 2, config).sizes, ElementsAre(60));
  EXPECT_THAT(axes_of(Partition::kReplicated, {}, 2, config).sizes, ElementsAre(1));
}

TEST(ShardAxes, OldVersionsPermuteEachRanksRows) {
  const GptConfig config = config_of(4, 4, 8);
  ShardAxes axes = axes_of(Partition::kQkv, {48, 32}, 2, config, 0);
  EXPECT_THAT(axes.sizes, ElementsAre(4, 3, 8, 32));
  EXPECT_THAT(axes.memory_order, ElementsAre(1, 0, 2, 3));
  axes = axes_of(Partition::kQkv, {48, 32}, 2, config, 1.0);
  EXPECT_THAT(axes.memory_order, ElementsAre(0, 2, 1, 3));
  axes = axes_of(Partition::kQkv, {48, 32}, 2, config, 2.0);
  EXPECT_THAT(axes.memory_order, ElementsAre(0, 1));
  EXPECT_THAT(axes_of(Partition::kRows, {48, 32}, 2, config, 0).memory_order, ElementsAre(0, 1));
}

/// Which row of the merged tensor stands at each row of a rank's shard, said plainly.
std::vector<int64_t> expected_qkv_rows(const GptConfig& config, int64_t ranks, int64_t rank,
                                       double version) {
  const int64_t local = config.num_query_groups / ranks;
  const int64_t parts = config.num_attention_heads / config.num_query_groups + 2;
  const int64_t size = config.kv_channels;
  const auto merged = [&](int64_t group, int64_t part, int64_t element) {
    return ((rank * local + group) * parts + part) * size + element;
  };
  std::vector<int64_t> rows(static_cast<size_t>(local * parts * size));
  for (int64_t group = 0; group < local; ++group) {
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t element = 0; element < size; ++element) {
        int64_t at = (group * parts + part) * size + element;
        if (version == 0) at = (part * local + group) * size + element;
        if (version == 1) at = (group * size + element) * parts + part;
        rows[static_cast<size_t>(at)] = merged(group, part, element);
      }
    }
  }
  return rows;
}

TEST(ShardAxes, QkvShardsHoldTheRowsOfTheirGroups) {
  const struct {
    int64_t heads, groups, size, ranks;
    double version;
  } table[] = {{4, 4, 2, 1, 3}, {4, 4, 2, 2, 2}, {4, 4, 3, 4, 3}, {8, 2, 3, 2, 3}, {8, 4, 2, 2, 3},
               {6, 1, 2, 1, 3}, {4, 4, 3, 2, 0}, {4, 4, 3, 4, 0}, {4, 4, 3, 2, 1}, {4, 4, 3, 1, 1}};

  for (const auto& row : table) {
    const GptConfig config = config_of(row.heads, row.groups, row.size);
    for (const int64_t columns : {0, 1, 5}) {  // 0: a bias
      Shape shape = {config.qkv_rows() / row.ranks};
      if (columns > 0) shape.push_back(columns);
      const ShardAxes axes = axes_of(Partition::kQkv, shape, row.ranks, config, row.version);
      for (int64_t rank = 0; rank < row.ranks; ++rank) {
        std::vector<int64_t> expected;
        for (const int64_t r : expected_qkv_rows(config, row.ranks, rank, row.version)) {
          for (int64_t c = 0; c < std::max<int64_t>(columns, 1); ++c) {
            expected.push_back(r * std::max<int64_t>(columns, 1) + c);
          }
        }
        EXPECT_EQ(shard_elements(axes, row.ranks, rank), expected);
      }
    }
  }
}

TEST(ShardAxes, MoreRanksThanQueryGroupsShareTheRowsOfAGroup) {
  const GptConfig config = config_of(8, 2, 2);  // a group: 8 rows of q, 2 of k, 2 of v
  const ShardAxes axes = axes_of(Partition::kQkv, {6}, 4, config);
  EXPECT_THAT(shard_elements(axes, 4, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(shard_elements(axes, 4, 3), ElementsAre(18, 19, 20, 21, 22, 23));
}

TEST(ShardAxes, GatedShardsHoldTheirPartOfBothHalves) {
  const GptConfig config = config_of(2, 2, 2, true);
  const ShardAxes axes = axes_of(Partition::kGated, {4, 3}, 2, config);
  // Gate rows 0..3, up rows 4..7; rank 1 holds gate rows 2, 3 and up rows 6, 7.
  EXPECT_THAT(shard_elements(axes, 2, 1), ElementsAre(6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23));
}

TEST(ShardAxes, ShardsTogetherHoldEveryElementOnce) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  constexpr Partition kAll[] = {Partition::kReplicated, Partition::kRows, Partition::kColumns,
                                Partition::kVocabulary, Partition::kQkv,  Partition::kGated};
  for (int round = 0; round < 300; ++round) {
    const int64_t ranks = pick(4);
    const int64_t groups = ranks * pick(3);
    const int64_t each = pick(3);
    const GptConfig config = config_of(groups * each, groups, pick(4), pick(2) == 1);
    const Partition partition = kAll[pick(6) - 1];
    const double version = each == 1 ? static_cast<double>(pick(4) - 1) : 3;
    Shape shape = {2 * pick(4), pick(5)};
    if (partition == Partition::kQkv) shape[0] = config.qkv_rows() / ranks;
    if (partition != Partition::kColumns && pick(3) == 1) shape.pop_back();
    const ShardAxes axes = axes_of(partition, shape, ranks, config, version);
    const Shape merged = merged_shape(partition, shape, ranks);
    const int64_t total =
        std::accumulate(merged.begin(), merged.end(), int64_t{1}, std::multiplies<>());
    std::vector<int64_t> seen;
    const int64_t holders = partition == Partition::kReplicated ? 1 : ranks;
    for (int64_t rank = 0; rank < holders; ++rank) {
      const auto elements = shard_elements(axes, ranks, rank);
      seen.insert(seen.end(), elements.begin(), elements.end());
    }
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> expected(static_cast<size_t>(total));
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(seen, expected) << "round " << round;
    ASSERT_EQ(*shard_shape(partition, merged, ranks), shape) << "round " << round;
  }
}

TEST(ShardAxes, ShapesThatDoNotFitAreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const GptConfig config = config_of(4, 4, 8, true);
  const GptConfig grouped = config_of(4, 2, 8);

  const struct {
    Partition partition;
    Shape shape;
    int64_t ranks;
    const GptConfig& config;
    double version;
    StatusCode code;
    const char* message;
  } table[] = {
      {Partition::kColumns,
       {32},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "expected at least 2 dimensions, found shape [32]"},
      {Partition::kRows,
       {},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "expected at least 1 dimensions, found shape []"},
      {Partition::kQkv,
       {47, 32},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "expected 48 rows ((4 heads + 2 * 4 query groups) * 8 over 2 ranks), found 47"},
      {Partition::kQkv,
       {48, 32},
       2,
       grouped,
       3,
       StatusCode::kCorruption,
       "expected 32 rows ((4 heads + 2 * 2 query groups) * 8 over 2 ranks), found 48"},
      {Partition::kQkv,
       {16, 32},
       3,
       grouped,
       3,
       StatusCode::kUnsupported,
       "2 query groups over 3 tensor-parallel ranks: expected a number of ranks that divides them "
       "or is a multiple of them"},
      {Partition::kQkv,
       {32, 32},
       2,
       grouped,
       0,
       StatusCode::kCorruption,
       "checkpoint_version 0 has no query groups: expected 4, found 2"},
      {Partition::kQkv,
       {48, 32},
       2,
       config,
       0.5,
       StatusCode::kUnsupported,
       "checkpoint_version: expected 0, 1.0 or 2.0 and above, found 0.5"},
      {Partition::kQkv,
       {48, 32},
       2,
       config,
       std::numeric_limits<double>::quiet_NaN(),
       StatusCode::kUnsupported,
       "checkpoint_version: expected 0, 1.0 or 2.0 and above, found nan"},
      {Partition::kGated,
       {127, 32},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "expected an even number of rows (gate and up), found 127"},
      {Partition::kRows,
       {-1, 32},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "shape [-1, 32] over 2 ranks: its elements cannot be counted in 64 bits"},
      {Partition::kRows,
       {kHuge, 32},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "shape [9223372036854775807, 32] over 2 ranks: its elements cannot be counted in 64 bits"},
      {Partition::kReplicated,
       {kHuge, kHuge, 0},
       2,
       config,
       3,
       StatusCode::kCorruption,
       "shape [9223372036854775807, 9223372036854775807, 0] over 2 ranks: its elements cannot be "
       "counted in 64 bits"},
      {Partition::kRows,
       {4, 4},
       0,
       config,
       3,
       StatusCode::kInvalidArgument,
       "tensor-model-parallel-size: expected at least 1, found 0"},
  };

  for (const auto& row : table) {
    const auto axes = shard_axes(row.partition, row.shape, row.ranks, row.config, row.version);
    ASSERT_FALSE(axes) << row.message;
    EXPECT_EQ(axes.error().code(), row.code);
    EXPECT_EQ(axes.error().message(), row.message);
  }
}

TEST(ShardShape, CutsTheDimensionOfThePartition) {
  EXPECT_THAT(*shard_shape(Partition::kReplicated, {32}, 4), ElementsAre(32));
  EXPECT_THAT(*shard_shape(Partition::kQkv, {96, 32}, 4), ElementsAre(24, 32));
  EXPECT_THAT(*shard_shape(Partition::kColumns, {96, 32}, 4), ElementsAre(96, 8));
  EXPECT_EQ(shard_shape(Partition::kColumns, {96, 30}, 4).error().message(),
            "shape [96, 30]: expected a dimension 1 that 4 ranks divide evenly");
  EXPECT_EQ(shard_shape(Partition::kColumns, {96}, 4).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(shard_shape(Partition::kRows, {96}, 0).error().code(), StatusCode::kInvalidArgument);
}

TEST(MergedShape, SaturatesInsteadOfOverflowing) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(merged_shape(Partition::kRows, {kHuge / 2, 3}, 4), ElementsAre(kHuge, 3));
  EXPECT_THAT(merged_shape(Partition::kColumns, {5}, 4), ElementsAre(5));
}

}  // namespace
}  // namespace meg::model
