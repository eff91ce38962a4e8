// NCCL between processes on one machine, whose memory of GPUs is the host's: what ranks exchange
// are files in a folder, and each call is done when it returns, so that its numbers are real. Only
// a send goes on until the other rank has received it. With CUDA_DEVICE_MAX_CONNECTIONS=1, one
// queue for all streams, what has to wait for a send holds the host, as it would hold all that
// follows in the queue.
// Declared without NCCL's header, as it is a wheel beside LibTorch's.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/pretended_device/recorder.h"

namespace meg::pretended {
namespace {

enum Code : int { kSuccess = 0, kSystemError = 2 };

/// ncclDataType_t
enum Type : int { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kHalf, kFloat, kDouble, kBf16 };

/// ncclRedOp_t
enum Operation : int { kSum = 0, kMax = 2, kMin = 3 };

constexpr size_t kBytesOfType[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

/// ncclUniqueId: the path of a folder in that of MEG_PRETENDED_NCCL.
struct Id {
  char folder[128];
};

/// bfloat16 as the upper half of a float, rounded to the nearest even one.
struct Bfloat16 {
  uint16_t bits = 0;

  Bfloat16() = default;

  explicit Bfloat16(double value) {
    const auto narrow = static_cast<float>(value);
    uint32_t whole = 0;
    std::memcpy(&whole, &narrow, sizeof whole);
    bits = static_cast<uint16_t>((whole + 0x7FFFU + ((whole >> 16U) & 1U)) >> 16U);
  }

  operator double() const {
    const uint32_t whole = uint32_t{bits} << 16U;
    float value = 0;
    std::memcpy(&value, &whole, sizeof value);
    return double{value};
  }
};

template <class T>
T combined(T a, T b, int operation) {
  if (operation == kMax) return a < b ? b : a;
  if (operation == kMin) return b < a ? b : a;
  return static_cast<T>(a + b);
}

/// Wide: in which T is computed.
template <class T, class Wide>
void reduce(char* into, const char* other, size_t count, int operation) {
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, into + i * sizeof(T), sizeof(T));
    std::memcpy(&b, other + i * sizeof(T), sizeof(T));
    a = static_cast<T>(combined<Wide>(static_cast<Wide>(a), static_cast<Wide>(b), operation));
    std::memcpy(into + i * sizeof(T), &a, sizeof(T));
  }
}

using Reduce = void (*)(char*, const char*, size_t, int);
constexpr Reduce kReduceOfType[] = {reduce<int8_t, int64_t>,  reduce<uint8_t, int64_t>,
                                    reduce<int32_t, int64_t>, reduce<uint32_t, int64_t>,
                                    reduce<int64_t, int64_t>, reduce<uint64_t, uint64_t>,
                                    reduce<_Float16, float>,  reduce<float, float>,
                                    reduce<double, double>,   reduce<Bfloat16, double>};

bool has_one_queue() {
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && std::string(connections) == "1";
}

/// What an ncclComm_t points to.
class Communicator {
 public:
  Communicator(std::string folder, int rank, int size)
      : folder_(std::move(folder)), rank_(rank), size_(size) {}

  int size() const { return size_; }

  int rank() const { return rank_; }

  void abort() { aborted_ = true; }

  /// What each rank gives, rank after rank; empty where it was aborted.
  std::vector<std::string> exchange(const void* given, size_t bytes) {
    const int64_t number = exchanges_++;
    publish(part_of(number, rank_), given, bytes);
    std::vector<std::string> all;
    for (int rank = 0; rank < size_; ++rank) all.push_back(awaited(part_of(number, rank)));
    // Whoever has this one of all ranks knows that they are done with the one before.
    if (number > 0) remove(part_of(number - 1, rank_));
    return aborted_ ? std::vector<std::string>() : all;
  }

  void send(const void* data, size_t bytes, int to) {
    if (has_one_queue()) wait_for_sends(sends());
    all_sent_.push_back(message(rank_, to, sent_[to]++));
    publish(all_sent_.back(), data, bytes);
  }

  size_t sends() const { return all_sent_.size(); }

  /// Returns when the first `count` messages are received; ends the process if that takes too long.
  void wait_for_sends(size_t count) const {
    if (count == 0) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!aborted_ && std::filesystem::exists(path(all_sent_[count - 1]))) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (std::chrono::steady_clock::now() < end) continue;
      std::fprintf(stderr, "what follows message %s of %s waits for it forever\n",
                   all_sent_[count - 1].c_str(), folder_.c_str());
      std::abort();
    }
  }

  std::string receive(int from) {
    const std::string name = message(from, rank_, received_[from]++);
    std::string data = awaited(name);
    remove(name);
    return data;
  }

 private:
  static std::string part_of(int64_t exchange, int rank) {
    return std::to_string(exchange) + '.' + std::to_string(rank);
  }

  static std::string message(int from, int to, int64_t number) {
    return std::to_string(from) + '>' + std::to_string(to) + '.' + std::to_string(number);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void publish(const std::string& name, const void* data, size_t bytes) const {
    const std::string part = path(name) + ".part";
    std::ofstream(part, std::ios::binary)
        .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    std::filesystem::rename(part, path(name));
  }

  std::string awaited(const std::string& name) const {
    while (!aborted_ && !std::filesystem::exists(path(name))) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void remove(const std::string& name) const { std::filesystem::remove(path(name)); }

  std::string folder_;
  int rank_, size_;
  int64_t exchanges_ = 0;
  std::map<int, int64_t> sent_, received_;
  std::vector<std::string> all_sent_;
  std::atomic<bool> aborted_ = false;
};

/// The communicators that have sent, by their streams.
class Senders {
 public:
  static Senders& instance() {
    static auto* const senders = new Senders;
    return *senders;
  }

  void add(const void* stream, const Communicator* communicator) {
    const std::lock_guard lock(mutex_);
    of_stream_[stream] = communicator;
  }

  const Communicator* find(const void* stream) {
    const std::lock_guard lock(mutex_);
    const auto found = of_stream_.find(stream);
    return found == of_stream_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, const Communicator*> of_stream_;
};

void record(const char* call, const void* stream, size_t bytes) {
  Recorder::instance().add_kernel(stream, call);
  Recorder::instance().add_exchanged(bytes);
}

}  // namespace

size_t sends_of(const void* stream) {
  const Communicator* const sender = Senders::instance().find(stream);
  return sender == nullptr ? 0 : sender->sends();
}

void wait_for_sends(const void* stream, size_t count) {
  const Communicator* const sender = Senders::instance().find(stream);
  if (has_one_queue() && sender != nullptr) sender->wait_for_sends(count);
}

}  // namespace meg::pretended

using namespace meg::pretended;

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return kSuccess;
}

const char* ncclGetErrorString(int) { return "not done by the pretended device"; }

const char* ncclGetLastError(Communicator*) { return ""; }

int ncclGetUniqueId(Id* id) {
  const char* const parent = std::getenv("MEG_PRETENDED_NCCL");
  if (parent == nullptr) return kSystemError;
  const std::string pattern = std::filesystem::path(parent) / "XXXXXX";
  std::strcpy(id->folder, pattern.c_str());
  return ::mkdtemp(id->folder) == nullptr ? kSystemError : kSuccess;
}

int ncclCommInitRankConfig(Communicator** communicator, int size, Id id, int rank, void*) {
  *communicator = new Communicator(id.folder, rank, size);
  (*communicator)->exchange(nullptr, 0);  // as NCCL it returns when all ranks are there
  return kSuccess;
}

int ncclCommInitRank(Communicator** communicator, int size, Id id, int rank) {
  return ncclCommInitRankConfig(communicator, size, id, rank, nullptr);
}

int ncclCommFinalize(Communicator*) { return kSuccess; }

int ncclCommDestroy(Communicator* communicator) {
  delete communicator;
  return kSuccess;
}

/// Others may still be waiting in it: it is left to them.
int ncclCommAbort(Communicator* communicator) {
  communicator->abort();
  return kSuccess;
}

int ncclCommGetAsyncError(Communicator*, int* error) {
  *error = kSuccess;
  return kSuccess;
}

int ncclCommCount(Communicator* communicator, int* count) {
  *count = communicator->size();
  return kSuccess;
}

int ncclCommUserRank(Communicator* communicator, int* rank) {
  *rank = communicator->rank();
  return kSuccess;
}

int ncclGroupStart() { return kSuccess; }

int ncclGroupEnd() { return kSuccess; }

int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                  Communicator* communicator, const void* stream) {
  const size_t bytes = count * kBytesOfType[type];
  record("ncclAllReduce", stream, bytes);
  std::vector<std::string> all = communicator->exchange(from, bytes);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    kReduceOfType[type](all[0].data(), all[rank].data(), count, operation);
  }
  if (!all.empty()) std::memcpy(to, all[0].data(), bytes);
  return kSuccess;
}

/// count: of a rank's part.
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int operation,
                      Communicator* communicator, const void* stream) {
  const size_t bytes = count * kBytesOfType[type];
  record("ncclReduceScatter", stream, bytes * static_cast<size_t>(communicator->size()));
  std::vector<std::string> all =
      communicator->exchange(from, bytes * static_cast<size_t>(communicator->size()));
  const size_t own = bytes * static_cast<size_t>(communicator->rank());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    kReduceOfType[type](all[0].data() + own, all[rank].data() + own, count, operation);
  }
  if (!all.empty()) std::memcpy(to, all[0].data() + own, bytes);
  return kSuccess;
}

int ncclAllGather(const void* from, void* to, size_t count, int type, Communicator* communicator,
                  const void* stream) {
  const size_t bytes = count * kBytesOfType[type];
  record("ncclAllGather", stream, bytes);
  char* place = static_cast<char*>(to);
  for (const std::string& part : communicator->exchange(from, bytes)) {
    std::memcpy(place, part.data(), bytes);
    place += bytes;
  }
  return kSuccess;
}

int ncclBroadcast(const void* from, void* to, size_t count, int type, int root,
                  Communicator* communicator, const void* stream) {
  const size_t bytes = count * kBytesOfType[type];
  record("ncclBroadcast", stream, bytes);
  const bool is_root = communicator->rank() == root;
  const std::vector<std::string> all = communicator->exchange(from, is_root ? bytes : 0);
  if (!all.empty()) std::memcpy(to, all[static_cast<size_t>(root)].data(), bytes);
  return kSuccess;
}

int ncclBcast(void* data, size_t count, int type, int root, Communicator* communicator,
              const void* stream) {
  return ncclBroadcast(data, data, count, type, root, communicator, stream);
}

int ncclSend(const void* data, size_t count, int type, int to, Communicator* communicator,
             const void* stream) {
  const size_t bytes = count * kBytesOfType[type];
  record("ncclSend", stream, bytes);
  Senders::instance().add(stream, communicator);
  communicator->send(data, bytes, to);
  return kSuccess;
}

int ncclRecv(void* data, size_t count, int type, int from, Communicator* communicator,
             const void* stream) {
  const size_t bytes = count * kBytesOfType[type];
  record("ncclRecv", stream, bytes);
  const std::string received = communicator->receive(from);
  std::memcpy(data, received.data(), std::min(bytes, received.size()));
  return kSuccess;
}

}  // extern "C"
