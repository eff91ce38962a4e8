#include "tests/emulation/grid.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "tests/emulation/fiber.h"

// Where shared_memory.ld gathers what kernels declare as __shared__.
extern "C" char meg_shared_begin[], meg_shared_end[];

namespace meg::emulation {

Extent thread_index, block_index, block_extent, grid_extent;

namespace {

enum class State { kReady, kAtBarrier, kWithLanes, kEnded };

[[noreturn]] void run_kernels();

/// A thread of the block; the next block's thread of the same number uses its fiber again.
struct Thread {
  explicit Thread(unsigned of_number) : number(of_number) {}

  unsigned number;
  Fiber fiber{run_kernels};
  State state = State::kReady;
  Call call = {};                              // where it waits,
  unsigned mask = 0;                           // for which lanes,
  uint64_t word = 0;                           // and what it brings them
  std::array<uint64_t, kWarpSize> words = {};  // what they brought
};

unsigned count_of(Extent extent) { return extent.x * extent.y * extent.z; }

Extent place_in(Extent extent, unsigned number) {
  return {number % extent.x, number / extent.x % extent.y, number / extent.x / extent.y};
}

bool is_named(unsigned mask, unsigned lane) { return (mask >> lane & 1) != 0; }

bool is_same(const Call& a, const Call& b) {
  return a.at.line() == b.at.line() && a.at.column() == b.at.column() &&
         std::string_view(a.at.file_name()) == b.at.file_name();
}

std::string text(Extent place) {
  return "(" + std::to_string(place.x) + ", " + std::to_string(place.y) + ", " +
         std::to_string(place.z) + ")";
}

std::string place_of(const Call& call) {
  return std::string(call.at.file_name()) + ":" + std::to_string(call.at.line());
}

std::string hexadecimal(unsigned mask) {
  char digits[11];
  static_cast<void>(std::snprintf(digits, sizeof(digits), "0x%08x", mask));
  return digits;
}

std::string environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// NaN for numbers of any type. Not std::fill: the address sanitizer sees gaps between the arrays.
__attribute__((no_sanitize("address"))) void poison_shared_memory() {
  for (volatile char* at = meg_shared_begin; at < meg_shared_end; ++at) *at = '\xff';
}

/// What all grids run on, one after the other.
class Multiprocessor {
 public:
  bool run(const Grid& grid);

  const std::string& failure() const { return failure_; }

  // Called by the thread that runs.
  void run_kernels();

  unsigned lane() const { return running_->number % kWarpSize; }

  void wait_for_block(const Call& call);
  const std::array<uint64_t, kWarpSize>& meet(unsigned mask, uint64_t word, const Call& call);
  void report(const Call& call, const std::string& found);
  [[noreturn]] void stop();

 private:
  void start_block(unsigned number);
  bool run_block();
  void run_warp(unsigned warp);
  void run_lanes(unsigned warp);
  void hand_back(State state);
  void release_lanes(unsigned warp);
  bool waits_with(const Thread& thread, unsigned number) const;
  std::optional<unsigned> missed_by(const Thread& thread) const;
  bool release_block();
  void list(const std::string& barrier);
  void release(Thread& thread);
  void report_waiting();
  std::string whereabouts(unsigned number) const;
  unsigned first_ready_warp();

  unsigned random_below(unsigned limit) {
    return std::uniform_int_distribution<unsigned>(0, limit - 1)(random_);
  }

  const std::string seed_ = environment("MEG_EMULATION_SEED", "1");
  const std::string left_out_ = environment("MEG_EMULATION_WITHOUT_BARRIER", "");
  const std::string listed_to_ = environment("MEG_EMULATION_BARRIERS_TO", "");
  std::set<std::string> listed_;  // barriers
  std::mt19937_64 random_{std::strtoull(seed_.c_str(), nullptr, 10)};
  Fiber host_;
  const Grid* grid_ = nullptr;
  std::deque<Thread> threads_;   // those of the largest block so far
  unsigned count_ = 0;           // of the block that runs
  std::vector<unsigned> ready_;  // threads, by warp
  unsigned ended_ = 0;
  Thread* running_ = nullptr;
  std::string failure_;
};

Multiprocessor& multiprocessor() {
  static Multiprocessor only;
  return only;
}

void run_kernels() {
  multiprocessor().run_kernels();
  std::abort();
}

bool Multiprocessor::run(const Grid& grid) {
  grid_ = &grid;
  grid_extent = grid.blocks;
  block_extent = grid.threads;
  count_ = count_of(grid.threads);
  while (threads_.size() < count_) threads_.emplace_back(static_cast<unsigned>(threads_.size()));
  std::vector<unsigned> blocks(count_of(grid.blocks));
  std::iota(blocks.begin(), blocks.end(), 0u);
  std::shuffle(blocks.begin(), blocks.end(), random_);
  for (const unsigned block : blocks) {
    start_block(block);
    if (run_block()) continue;
    threads_.clear();  // they stand somewhere in the kernel
    return false;
  }
  return true;
}

void Multiprocessor::start_block(unsigned number) {
  poison_shared_memory();
  block_index = place_in(grid_extent, number);
  ready_.assign((count_ + kWarpSize - 1) / kWarpSize, 0);
  ended_ = 0;
  failure_.clear();
  for (unsigned i = 0; i < count_; ++i) release(threads_[i]);
}

bool Multiprocessor::run_block() {
  while (ended_ < count_ && failure_.empty()) {
    const unsigned warp = first_ready_warp();
    if (warp < ready_.size()) {
      run_warp(warp);
    } else if (!release_block()) {
      report_waiting();
    }
  }
  return failure_.empty();
}

/// The first from a random one on; the number of warps where none is ready.
unsigned Multiprocessor::first_ready_warp() {
  const auto warps = static_cast<unsigned>(ready_.size());
  const unsigned begin = random_below(warps);
  for (unsigned i = 0; i < warps; ++i) {
    if (ready_[(begin + i) % warps] > 0) return (begin + i) % warps;
  }
  return warps;
}

/// Often as far as it gets without the others, so that one warp is far ahead of another.
void Multiprocessor::run_warp(unsigned warp) {
  do {
    run_lanes(warp);
    if (!failure_.empty()) return;
    release_lanes(warp);
  } while (ready_[warp] > 0 && random_below(8) != 0);
}

/// Each lane that is ready until it waits or ends, in random order.
void Multiprocessor::run_lanes(unsigned warp) {
  std::array<unsigned, kWarpSize> lanes;
  std::iota(lanes.begin(), lanes.end(), warp * kWarpSize);
  std::shuffle(lanes.begin(), lanes.end(), random_);
  for (const unsigned number : lanes) {
    if (number >= count_ || threads_[number].state != State::kReady) continue;
    running_ = &threads_[number];
    thread_index = place_in(block_extent, number);
    host_.hand_over_to(running_->fiber);
    if (!failure_.empty()) return;
  }
}

void Multiprocessor::run_kernels() {
  while (true) {
    grid_->kernel();
    ++ended_;
    hand_back(State::kEnded);
  }
}

void Multiprocessor::hand_back(State state) {
  running_->state = state;
  --ready_[running_->number / kWarpSize];
  running_->fiber.hand_over_to(host_);
}

void Multiprocessor::release(Thread& thread) {
  thread.state = State::kReady;
  ++ready_[thread.number / kWarpSize];
}

void Multiprocessor::wait_for_block(const Call& call) {
  if (!left_out_.empty() && place_of(call).ends_with("/" + left_out_)) return;
  running_->call = call;
  running_->mask = 0;
  hand_back(State::kAtBarrier);
}

const std::array<uint64_t, kWarpSize>& Multiprocessor::meet(unsigned mask, uint64_t word,
                                                            const Call& call) {
  if (!is_named(mask, lane())) {
    report(call, "is in a lane that mask " + hexadecimal(mask) + " does not name");
    stop();
  }
  running_->call = call;
  running_->mask = mask;
  running_->word = word;
  hand_back(State::kWithLanes);
  return running_->words;
}

/// Whether thread `number` waits at the same place as `thread`, for the same lanes.
bool Multiprocessor::waits_with(const Thread& thread, unsigned number) const {
  if (number >= count_) return false;
  const Thread& other = threads_[number];
  return other.state == thread.state && other.mask == thread.mask &&
         is_same(other.call, thread.call);
}

/// The first thread that `thread` waits for and that has not come.
std::optional<unsigned> Multiprocessor::missed_by(const Thread& thread) const {
  const bool whole_block = thread.state == State::kAtBarrier;
  const unsigned begin = whole_block ? 0 : thread.number / kWarpSize * kWarpSize;
  const unsigned end = whole_block ? count_ : begin + kWarpSize;
  for (unsigned number = begin; number < end; ++number) {
    const bool wanted = whole_block || is_named(thread.mask, number % kWarpSize);
    if (wanted && !waits_with(thread, number)) return number;
  }
  return std::nullopt;
}

void Multiprocessor::release_lanes(unsigned warp) {
  const unsigned begin = warp * kWarpSize;
  for (unsigned first = begin; first < std::min(begin + kWarpSize, count_); ++first) {
    if (threads_[first].state != State::kWithLanes || missed_by(threads_[first])) continue;
    const unsigned mask = threads_[first].mask;
    std::array<uint64_t, kWarpSize> words = {};
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      if (is_named(mask, lane)) words[lane] = threads_[begin + lane].word;
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      if (!is_named(mask, lane)) continue;
      threads_[begin + lane].words = words;
      release(threads_[begin + lane]);
    }
  }
}

/// When no thread is ready. Returns whether all were at the same barrier.
bool Multiprocessor::release_block() {
  if (threads_[0].state != State::kAtBarrier || missed_by(threads_[0])) return false;
  if (!listed_to_.empty()) list(place_of(threads_[0].call));
  for (unsigned i = 0; i < count_; ++i) release(threads_[i]);
  return true;
}

void Multiprocessor::list(const std::string& barrier) {
  if (listed_.insert(barrier).second) std::ofstream(listed_to_, std::ios::app) << barrier << "\n";
}

/// When no thread is ready, nor can be released.
void Multiprocessor::report_waiting() {
  for (unsigned i = 0; i < count_; ++i) {
    running_ = &threads_[i];
    if (running_->state == State::kEnded) continue;
    const auto missed = missed_by(*running_);
    if (missed) return report(running_->call, "waits for thread " + whereabouts(*missed));
  }
}

std::string Multiprocessor::whereabouts(unsigned number) const {
  if (number >= count_) return std::to_string(number) + ", which the block does not have";
  const Thread& thread = threads_[number];
  const std::string who = text(place_in(block_extent, number));
  if (thread.state == State::kEnded) return who + ", which has ended";
  const std::string at =
      who + ", which is at " + place_of(thread.call) + ": " + thread.call.function + "()";
  return thread.state == State::kAtBarrier ? at : at + " with mask " + hexadecimal(thread.mask);
}

void Multiprocessor::report(const Call& call, const std::string& found) {
  failure_ = place_of(call) + ": " + call.function + "(): kernel " + grid_->name + ", block " +
             text(block_index) + ": thread " + text(place_in(block_extent, running_->number)) +
             " " + found + " (MEG_EMULATION_SEED=" + seed_ + ")";
  static_cast<void>(std::fprintf(stderr, "%s\n", failure_.c_str()));
}

/// Ends the grid after report(). The stack of the thread is dropped as it is: nothing on it may own
/// anything.
void Multiprocessor::stop() {
  running_->fiber.hand_over_to(host_);
  std::abort();
}

}  // namespace

bool run(const Grid& grid) { return multiprocessor().run(grid); }

const std::string& last_failure() { return multiprocessor().failure(); }

unsigned lane_index() { return multiprocessor().lane(); }

void wait_for_block(const Call& call) { multiprocessor().wait_for_block(call); }

const std::array<uint64_t, kWarpSize>& meet_lanes(unsigned mask, uint64_t word, const Call& call) {
  return multiprocessor().meet(mask, word, call);
}

uint64_t word_of_lane(unsigned mask, uint64_t word, unsigned from, const Call& call) {
  const auto& words = meet_lanes(mask, word, call);
  if (!is_named(mask, from)) {
    multiprocessor().report(call, "reads lane " + std::to_string(from) + ", which mask " +
                                      hexadecimal(mask) + " does not name");
    multiprocessor().stop();
  }
  return words[from];
}

}  // namespace meg::emulation
