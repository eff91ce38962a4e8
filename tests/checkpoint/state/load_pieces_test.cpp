// Loading a checkpoint of no dialect: parameters whose pieces are boxes and flat ranges in memory.

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/training/read_training_tensors.h"

namespace meg::checkpoint {
namespace {

using Numbers = std::vector<float>;

Piece piece_of(Numbers numbers, Box box, int64_t first = 0) {
  const auto kept = std::make_shared<const Numbers>(std::move(numbers));
  return {memory_source(DType::kFloat32, std::as_bytes(std::span(*kept)), kept), std::move(box),
          first};
}

/// A matrix of 4 x 4, whose element i is i, cut in columns: the first two are one piece, the others
/// two flat ranges of a box.
LogicalCheckpoint checkpoint_of_pieces() {
  LogicalParameter parameter;
  parameter.name = "decoder.layers.0.mlp.linear_fc2.weight";
  parameter.partition = model::Partition::kColumns;
  parameter.shape = {4, 4};
  parameter.axes = {.sizes = {4, 4}, .partition_axis = 1, .memory_order = {}};
  const Box right{{0, 2}, {4, 2}};
  LogicalTensor weight{.kind = "weight", .dtype = DType::kFloat32, .pieces = {}, .replicas = {}};
  weight.pieces = {piece_of({7, 10, 11, 14, 15}, right, 3), piece_of({2, 3, 6}, right),
                   piece_of({0, 1, 4, 5, 8, 9, 12, 13}, {{0, 0}, {4, 2}})};
  parameter.tensors = {weight};
  LogicalCheckpoint checkpoint;
  checkpoint.path = "memory";
  checkpoint.parameters.push_back(std::move(parameter));
  return checkpoint;
}

TrainingTensorTarget target_of(const std::string& kind, std::vector<int64_t> shape,
                               Numbers* numbers) {
  return {.name = "decoder.layers.0.mlp.linear_fc2.weight",
          .kind = kind,
          .dtype = DType::kFloat32,
          .shape = std::move(shape),
          .bytes = std::as_writable_bytes(std::span(*numbers))};
}

TEST(LoadPieces, TheWholeAndARankOfAnotherSize) {
  const LogicalCheckpoint checkpoint = checkpoint_of_pieces();
  Numbers whole(16), again(16), third(4);
  const std::vector<TrainingTensorTarget> targets{target_of("weight", {4, 4}, &whole),
                                                  target_of("weight", {4, 4}, &again)};
  Status status = read_training_tensors(checkpoint, targets);
  ASSERT_TRUE(status.ok()) << status.message();
  Numbers expected(16);
  std::iota(expected.begin(), expected.end(), 0.0F);
  EXPECT_EQ(whole, expected);
  EXPECT_EQ(again, expected);

  const TrainingTensorTarget of_rank = target_of("weight", {4, 1}, &third);
  status = read_training_tensors(checkpoint, {&of_rank, 1},
                                 {.tensor_model_parallel_size = 4, .tensor_rank = 2});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(third, (Numbers{2, 6, 10, 14}));
}

TEST(LoadPieces, MomentsOfBeforeTheFirstStepAreZero) {
  LogicalCheckpoint checkpoint = checkpoint_of_pieces();
  Numbers moments(16, 1.0F);
  const TrainingTensorTarget target = target_of("exp_avg", {4, 4}, &moments);
  const Status absent = read_training_tensors(checkpoint, {&target, 1});
  EXPECT_EQ(absent.code(), StatusCode::kNotFound);
  EXPECT_EQ(absent.message(),
            "memory: decoder.layers.0.mlp.linear_fc2.weight: expected exp_avg in the optimizer, "
            "found none");
  checkpoint.is_before_first_step = true;
  ASSERT_TRUE(read_training_tensors(checkpoint, {&target, 1}).ok());
  EXPECT_EQ(moments, Numbers(16));
}

}  // namespace
}  // namespace meg::checkpoint
