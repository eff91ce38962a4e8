#include "libmeg/parallel/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meg::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Mesh::Sizes kTwoByTwoByTwo = {2, 1, 1, 0, 2};

Mesh mesh_of(Mesh::Sizes sizes, int rank, int world_size,
             RankOrder order = RankOrder::kDataBeforePipeline) {
  const Result<Mesh> mesh = Mesh::create(sizes, rank, world_size, order);
  EXPECT_TRUE(mesh.has_value()) << mesh.error().message();
  return *mesh;
}

// The example of Megatron-LM's initialize_model_parallel: 16 ranks, tensor 2, pipeline 4.
TEST(MeshTest, GroupsAreMegatronsExample) {
  const Mesh mesh = mesh_of({2, 1, 1, 0, 4}, 6, 16);
  EXPECT_EQ(mesh.size(Axis::kData), 2);
  EXPECT_THAT(mesh.group({Axis::kTensor}), ElementsAre(6, 7));
  EXPECT_THAT(mesh.group({Axis::kData}), ElementsAre(4, 6));
  EXPECT_THAT(mesh.group({Axis::kPipeline}), ElementsAre(2, 6, 10, 14));
  EXPECT_THAT(mesh.group({Axis::kTensor, Axis::kPipeline}),
              ElementsAre(2, 3, 6, 7, 10, 11, 14, 15));
}

TEST(MeshTest, OtherOrderPutsStagesBeforeCopies) {
  const Mesh mesh = mesh_of(kTwoByTwoByTwo, 5, 8, RankOrder::kPipelineBeforeData);
  EXPECT_THAT(mesh.group({Axis::kTensor}), ElementsAre(4, 5));
  EXPECT_THAT(mesh.group({Axis::kPipeline}), ElementsAre(5, 7));
  EXPECT_THAT(mesh.group({Axis::kData}), ElementsAre(1, 5));
  EXPECT_EQ(mesh.place(Axis::kData), 1);
  EXPECT_EQ(mesh.place(Axis::kPipeline), 0);
}

TEST(MeshTest, EveryRankIsInOneGroupOfEachAxis) {
  for (const Axis axis : {Axis::kTensor, Axis::kData, Axis::kPipeline}) {
    std::vector<int> seen(8);
    for (int rank = 0; rank < 8; ++rank) {
      const Mesh mesh = mesh_of(kTwoByTwoByTwo, rank, 8);
      const std::vector<int> group = mesh.group({axis});
      EXPECT_EQ(group[static_cast<size_t>(mesh.place(axis))], rank);
      for (const int other : group) ++seen[static_cast<size_t>(other)];
    }
    EXPECT_THAT(seen, ::testing::Each(2));
  }
}

TEST(MeshTest, RefusesSizesThatDoNotFillTheWorld) {
  const auto message = [](Mesh::Sizes sizes, int rank, int world_size) {
    const Result<Mesh> mesh = Mesh::create(sizes, rank, world_size);
    return mesh.has_value() ? std::string() : mesh.error().message();
  };
  EXPECT_EQ(message({2, 1, 1, 0, 2}, 0, 6),
            "world size: expected a multiple of tensor x pipeline x context parallel size "
            "2 x 2 x 1, found 6");
  EXPECT_THAT(message({1, 1, 1, 3, 1}, 0, 2), HasSubstr("data parallel size: expected 2"));
  EXPECT_THAT(message({0, 1, 1, 0, 1}, 0, 2), HasSubstr("expected at least 1 each, found 0"));
  EXPECT_THAT(message({1, 1, 1, 0, 1}, 2, 2), HasSubstr("rank: expected 0 to 1, found 2"));
  EXPECT_THAT(message({1 << 30, 1, 1 << 30, 0, 1 << 30}, 0, 2), HasSubstr("expected a multiple"));
}

}  // namespace
}  // namespace meg::parallel
