#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

/// A grid of CUDA threads on one thread of the host. The blocks run one after the other in random
/// order; a block's threads are fibers, of which one runs until it waits for others or ends: warps
/// take turns at random, and so do the lanes of a warp. Shared memory holds NaN when a block
/// begins.
///
/// What CUDA leaves undefined is an error here: a thread of the block that does not come to the
/// barrier where the others wait, a lane that is named in a mask and does not come, that is not
/// named and comes, or whose value is read though it is not named.
///
/// The schedules follow from the environment variable MEG_EMULATION_SEED (default: 1). Calls of
/// __syncthreads() at the place that MEG_EMULATION_WITHOUT_BARRIER names (FILE:LINE) do nothing, so
/// that tests can show that they notice its lack. The file that MEG_EMULATION_BARRIERS_TO names
/// receives a line PATH:LINE for each such call at which a block met.
namespace meg::emulation {

/// A device function that waits for other threads, and who called it where.
struct Call {
  const char* function;
  std::source_location at;
};

constexpr unsigned kWarpSize = 32;

/// A number of blocks or threads, or the place of one, in each dimension.
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

/// A launch. kernel() is what each thread of each block does.
struct Grid {
  std::string name;  ///< the kernel's, for errors
  Extent blocks;
  Extent threads;  ///< of each block
  std::function<void()> kernel;
};

/// Runs the grid to its end. Returns whether all went well; otherwise prints an error with kernel,
/// file, line and the seed of the schedule.
bool run(const Grid& grid);

/// The error of the last run() that failed.
const std::string& last_failure();

// What follows is for kernels, while they run.

/// Where the thread that runs stands.
extern Extent thread_index, block_index, block_extent, grid_extent;

/// The thread's number in its warp.
unsigned lane_index();

/// Waits for all threads of the block.
void wait_for_block(const Call& call);

/// Waits for the lanes that `mask` names. Returns the words that they brought, by lane.
const std::array<uint64_t, kWarpSize>& meet_lanes(unsigned mask, uint64_t word, const Call& call);

/// The word that lane `from` brought.
uint64_t word_of_lane(unsigned mask, uint64_t word, unsigned from, const Call& call);

}  // namespace meg::emulation
