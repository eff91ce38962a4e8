#pragma once

namespace meg::emulation {

/// What is wrong with a kernel.
enum class Fault {
  kNone,
  kNoBarrier,          // between writing and reading shared memory
  kBarrierOfHalf,      // which half of the threads does not reach
  kTwoBarriers,        // at different places for different threads
  kEarlyEnd,           // of a thread for which others wait at the barrier
  kNarrowMask,         // of a shuffle, which does not name all lanes that come
  kReadsUnnamed,       // lane
  kLaneMissing,        // from a shuffle
  kUnlikeMasks,        // of lanes that wait for each other
  kPreviousBlocksSum,  // read in the next block's shared memory
};

constexpr unsigned kBlockSumThreads = 128;

/// sums[block] = the sum of the values of the block's threads. Returns the launch's error code.
int block_sum(Fault fault, unsigned blocks, const float* values, float* sums);

}  // namespace meg::emulation
