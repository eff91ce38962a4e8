#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/torch_file/pickle_budget.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/state/tensor_source.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// A run of elements of a torch file that tensors are views of.
struct TorchStorage {
  std::string key;       ///< Its name in the file: `data/<key>`.
  std::string location;  ///< The device it was on, such as "cpu" or "cuda:3"; not used here.
  DType dtype = DType::kUint8;
  uint64_t bytes = 0;
  uint64_t file_offset = 0;     ///< Offset of its first byte in the file.
  std::optional<uint32_t> crc;  ///< CRC-32 of its bytes as the file claims; see has_crcs().
  /// The source of the bytes in a composed file, where they are not at one place.
  std::shared_ptr<const TensorSource> source;
};

class TorchFileContent;

struct TorchFileOptions {
  /// Shared by the files of a checkpoint; without one the file has its own.
  PickleBudget* budget = nullptr;
  /// Compares CRC-32s as check_metadata_crcs() does, before anything in the file is believed.
  bool check_metadata_crcs = true;
};

/// A file of torch.save: the zip form (torch >= 1.6) or the older form of five pickles, opened by
/// its metadata alone. Nothing in it is executed; every offset, size, shape and stride was checked
/// against the file. Tensor bytes are read when asked for. All const functions may be called by
/// several threads at once.
class TorchFile {
 public:
  /// kCorruption where the file contradicts itself, kUnsupported for what this version does not
  /// read (compressed storages, tar files of torch < 0.1.10), each with the path, the place, what
  /// was expected and found. Tensors with big-endian data are read with their bytes swapped.
  /// FORMAT.md lists what is checked. kResourceExhausted where its pickle grows beyond the budget.
  static Result<TorchFile> open(const std::string& path, const TorchFileOptions& options = {});

  TorchFile(TorchFile&&) noexcept;
  TorchFile& operator=(TorchFile&&) noexcept;
  ~TorchFile();

  /// Makes a file that is not on the disk: what a file with this content would be read as, with one
  /// of `sources`, of the same length, for each storage. name: used in place of a path. bytes: size
  /// of the files that it stands for. It has no descriptor, and view() returns nothing.
  static Result<TorchFile> compose(const std::string& name, const TorchFileContent& content,
                                   std::vector<std::shared_ptr<const TensorSource>> sources,
                                   uint64_t bytes);

  const std::string& path() const;

  /// Size of the file in bytes.
  uint64_t size() const;

  /// Whether this is the older form without zip.
  bool is_legacy() const;

  /// Whether the file claims CRCs of its content: legacy files do not, nor those that were saved
  /// with torch.serialization.set_crc32_options(False).
  bool has_crcs() const;

  /// Whether the data are big-endian in the file; view() then returns nothing.
  bool is_byte_swapped() const;

  const PickleGraph& graph() const;

  /// The value that was saved.
  PickleId root() const;

  std::span<const TorchStorage> storages() const;

  /// The tensor that a node stands for (through torch's Parameter wrapper too); nullptr for any
  /// other node.
  const TensorView* tensor(PickleId id) const;

  /// Nodes that are tensors, ascending; for a tensor in torch's Parameter wrapper only the wrapper.
  std::span<const PickleId> tensor_nodes() const;

  /// The bytes of a contiguous tensor in the mapped file, valid as long as this object lives;
  /// nullopt if strides or byte order require a copy. Touched pages count as memory of the process.
  std::optional<std::span<const std::byte>> view(const TensorView& tensor) const;

  /// Reads bytes [offset, offset + into.size()) of a storage into memory, little-endian. If the
  /// file is byte-swapped, both ends must lie between elements.
  Status read_storage(int storage, uint64_t offset, std::span<std::byte> into) const;

  /// Reads elements [first, first + into.size() / dtype_size) of a tensor, counted in row-major
  /// order, whatever its strides are; little-endian.
  Status read_elements(const TensorView& tensor, int64_t first, std::span<std::byte> into) const;

  /// Compares the CRC-32 of a storage with its content; ok if there is none. kCorruption names the
  /// storage and both values.
  Status check_crc(int storage) const;

  /// The same for all entries that are not storages, beginning with the pickled value. open() calls
  /// it unless its options say otherwise.
  Status check_metadata_crcs() const;

  /// The same for every entry of the archive, reading each byte once.
  Status check_crcs(const ProgressCallback& progress = {}) const;

  /// Whether the storages come from sources; see compose().
  bool is_composed() const;

  /// The file, for callers that move whole runs by (offset, length). That of a composed file only
  /// identifies it and cannot be read.
  const io::PooledFile& file() const;

 private:
  struct State;
  explicit TorchFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::checkpoint
