#include "tests/emulation/grid.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "libmeg/kernels/internal/cuda_launch.cuh"
#include "tests/emulation/block_sum.h"

// The emulator finds the faults that it is made for: a kernel that is right, and the same kernel
// with one thing wrong.

namespace meg::emulation {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Outcome {
  int error;
  std::vector<float> sums;
};

constexpr unsigned kBlocks = 50;

std::vector<float> numbers() {
  std::vector<float> values(kBlocks * kBlockSumThreads);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

Outcome run_block_sum(Fault fault) {
  const std::vector<float> values = numbers();
  Outcome outcome{0, std::vector<float>(kBlocks)};
  outcome.error = block_sum(fault, kBlocks, values.data(), outcome.sums.data());
  return outcome;
}

std::vector<float> wanted_sums() {
  std::vector<float> sums;
  for (unsigned block = 0; block < kBlocks; ++block) {
    const float first = static_cast<float>(block * kBlockSumThreads + 1);
    sums.push_back(kBlockSumThreads * (first + (kBlockSumThreads - 1) / 2.0f));
  }
  return sums;
}

TEST(GridTest, RunsACorrectKernel) {
  const Outcome outcome = run_block_sum(Fault::kNone);
  EXPECT_EQ(outcome.error, cudaSuccess);
  EXPECT_EQ(outcome.sums, wanted_sums());
}

TEST(GridTest, MissingBarrierGivesNanWhereTheReaderIsNotTheLast) {
  const Outcome outcome = run_block_sum(Fault::kNoBarrier);
  EXPECT_EQ(outcome.error, cudaSuccess);
  EXPECT_THAT(outcome.sums, testing::Contains(testing::IsNan()));
}

TEST(GridTest, SharedMemoryIsNotThePreviousBlocks) {
  const Outcome outcome = run_block_sum(Fault::kPreviousBlocksSum);
  EXPECT_THAT(outcome.sums, testing::Each(testing::IsNan()));
}

/// Each fault's error says what, where, in which kernel and with which seed.
void expect_failure(Fault fault, const std::string& function, const std::string& found) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_block_sum(fault).error, cudaErrorLaunchFailure);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), last_failure() + "\n");
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_failure(),
              AllOf(HasSubstr("block_sum.cu:"), HasSubstr(": " + function + "(): kernel"),
                    HasSubstr("block_sum_kernel<float>, block ("), HasSubstr(found),
                    HasSubstr("MEG_EMULATION_SEED=")));
  EXPECT_EQ(run_block_sum(Fault::kNone).sums, wanted_sums()) << "after a failure";
}

TEST(GridTest, ThreadsThatMissABarrierAreFound) {
  expect_failure(Fault::kBarrierOfHalf, "__syncthreads", "which has ended");
  expect_failure(Fault::kEarlyEnd, "__syncthreads", "waits for thread (5, 0, 0), which has ended");
  expect_failure(Fault::kTwoBarriers, "__syncthreads", "which is at ");
}

TEST(GridTest, LanesThatMissAShuffleAreFound) {
  expect_failure(Fault::kLaneMissing, "__shfl_xor_sync", "which is at ");
  expect_failure(Fault::kUnlikeMasks, "__shfl_xor_sync", "with mask 0x000000ff");
}

TEST(GridTest, MasksThatNameTooFewLanesAreFound) {
  expect_failure(Fault::kNarrowMask, "__shfl_xor_sync",
                 "is in a lane that mask 0x0000ffff does not name");
  expect_failure(Fault::kReadsUnnamed, "__shfl_xor_sync", "which mask 0x0000ffff does not name");
}

__global__ void lane_kernel(unsigned* ballots, int* lanes) {
  const int lane = static_cast<int>(threadIdx.x);
  ballots[lane] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  __syncwarp();
  lanes[lane] = __shfl_sync(0xffffffffu, lane, 5) + 100 * __shfl_down_sync(0xffffffffu, lane, 30u);
}

TEST(GridTest, LanesExchangeAsOnAGpu) {
  std::vector<unsigned> ballots(32);
  std::vector<int> lanes(32);
  ASSERT_EQ(kernels::launch<lane_kernel>(1, 32, nullptr, ballots.data(), lanes.data()), 0);
  EXPECT_THAT(ballots, testing::Each(0x49249249u));
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(lanes[static_cast<size_t>(lane)], 5 + 100 * (lane < 2 ? lane + 30 : lane));
  }
}

__global__ void order_kernel(std::vector<unsigned>* order, int* count) {
  order->push_back(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(count, 1);
  atomicCAS(count, 256, -1);
}

TEST(GridTest, EveryThreadRunsOnceInAnOrderOfItsOwn) {
  std::vector<unsigned> order, sorted(256);
  int count = 0;
  std::iota(sorted.begin(), sorted.end(), 0u);
  ASSERT_EQ(kernels::launch<order_kernel>(4, 64, nullptr, &order, &count), 0);
  EXPECT_NE(order, sorted);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, sorted);
  EXPECT_EQ(count, -1);
}

TEST(GridTest, ImpossibleLaunchesAreRefused) {
  std::vector<unsigned> order;
  int count = 0;
  for (const auto& [blocks, threads] : {std::pair{0, 32u}, {1, 0u}, {1, 1025u}}) {
    EXPECT_EQ(kernels::launch<order_kernel>(blocks, threads, nullptr, &order, &count),
              cudaErrorInvalidConfiguration);
  }
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace meg::emulation
