#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/transfer/internal/crc_parts.h"
#include "libmeg/checkpoint/transfer/internal/transfer_reader.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

/// A TensorTransfer made ready to run: a box of outer x extent x inner elements, whose middle axis
/// is cut. All positions are elements of that box in row-major order.
struct TransferWork {
  struct Source {
    TransferReader reader;
    int64_t begin = 0, end = 0;  ///< Rows of the cut axis.
    int storage = 0;
    bool checks_crc = false;  ///< Its storage is read here wholly and once: compare its CRC.
    CrcParts crc;
  };

  struct Target {
    const TorchFileWriter* writer = nullptr;
    int file = 0;
    int storage = 0;
    int64_t begin = 0, end = 0;  ///< Rows of the cut axis.
    CrcParts crc;
  };

  /// Rows [begin, end) of the cut axis, which one source has and the same targets take.
  struct Segment {
    static constexpr int kZeros = -1;
    static constexpr int kLastRow = -2;

    int64_t begin = 0, end = 0;
    int source = kZeros;  ///< Index into sources, or what these rows are filled with.
    std::vector<int> targets;
  };

  /// What a thread found out while it ran a part of this work.
  struct Parts {
    std::vector<CrcParts> sources, targets;
  };

  std::string name;
  int64_t outer = 1, extent = 0, inner = 1;
  int64_t source_extent = 0;
  DType source_dtype = DType::kUint8, target_dtype = DType::kUint8;
  std::vector<Source> sources;
  std::vector<Target> targets;
  std::vector<Segment> segments;  ///< Ascending; together [0, extent).

  std::mutex mutex;  ///< Guards the CrcParts while jobs run.
  std::atomic<int64_t> jobs_left = 0;

  int64_t source_size() const { return dtype_size(source_dtype); }

  int64_t target_size() const { return dtype_size(target_dtype); }

  Parts no_parts() const {
    return {std::vector<CrcParts>(sources.size()), std::vector<CrcParts>(targets.size())};
  }

  void add(const Parts& parts);

  /// After the last job: the CRCs of whole storages. kCorruption where a source's differs from what
  /// its archive says; crcs receives those of the targets, by their order.
  Status finish(std::vector<uint32_t>* crcs);
};

/// Makes ready every transfer of a plan, and, where check_crcs asks for it, the reading of those
/// source storages that no transfer reads wholly and once. kInternal for a plan that contradicts
/// itself or its files. The writers and the plan outlive what is returned.
Result<std::vector<std::unique_ptr<TransferWork>>> prepare_transfers(
    const TransferPlan& plan, const std::vector<TorchFileWriter>& writers, bool check_crcs);

}  // namespace meg::checkpoint
