#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// The content of a torch file: the value, and the storages that its tensors are views of.
class TorchFileContent {
 public:
  struct Storage {
    DType dtype = DType::kFloat32;
    uint64_t bytes = 0;
    /// The content, for small storages that are known beforehand; empty for those written later.
    std::vector<std::byte> literal;
    PickleId persistent = 0;  ///< The node that names it.
  };

  PickleGraph& graph() { return graph_; }

  const PickleGraph& graph() const { return graph_; }

  /// The value that the file holds; set before the file is laid out.
  PickleId root = 0;

  std::span<const Storage> storages() const { return storages_; }

  /// A storage that is written later, or, with `literal`, whose content is known now. Returns its
  /// index; in the file it is `data/<index>`.
  int add_storage(DType dtype, uint64_t bytes, std::vector<std::byte> literal = {});

  /// A contiguous tensor from element `offset` of a storage on.
  PickleId add_tensor(int storage, const std::vector<int64_t>& shape, int64_t offset = 0);

  /// A view: offset and strides in elements. The node is what torch.save writes for such a tensor.
  PickleId add_tensor_view(int storage, int64_t offset, const std::vector<int64_t>& shape,
                           const std::vector<int64_t>& strides);

  /// The node of a class or function, the same at each call, which the tensors refer to as well.
  /// Callers that copy a value from another graph replace its globals by these, so that each global
  /// is written once, as in files of torch.save.
  PickleId global(const std::string& module, const std::string& name);

 private:
  PickleId add_storage_id(int storage);

  PickleGraph graph_;
  std::vector<Storage> storages_;
  std::vector<PickleId> keys_;  // the key of each storage
  std::vector<bool> named_;     // whether a tensor names it by its `persistent` node
  // Nodes that all tensors share, made on first use.
  std::optional<PickleId> empty_tuple_, storage_word_, location_;
  std::unordered_map<std::string, PickleId> globals_;
};

/// The layout of the file that torch.save would write for a content, known before any byte of the
/// storages. Storages are aligned to 64 bytes, zip64 fields where sizes need them.
struct TorchFileLayout {
  std::string archive_name;               ///< The top folder in the zip, `model_optim_rng`.
  std::vector<std::byte> pickle;          ///< data.pkl
  std::vector<uint64_t> storage_offsets;  ///< Offset of each storage's first byte in the file.
  uint64_t file_size = 0;                 ///< Bytes of the whole file.
};

/// archive_name: the file's name without its ending, as torch.save takes it.
Result<TorchFileLayout> lay_out(const TorchFileContent& content, const std::string& archive_name);

/// Writes one torch file whose storages may come in any order and from several threads. The file is
/// created at its full size (unwritten parts are holes); the caller moves it to its final name.
class TorchFileWriter {
 public:
  /// Creates `path`, which must not exist, and writes data.pkl, the small entries and the literal
  /// storages. `content` is not used afterwards.
  static Result<TorchFileWriter> create(const std::string& path, const TorchFileContent& content,
                                        TorchFileLayout layout);

  TorchFileWriter(TorchFileWriter&&) noexcept;
  TorchFileWriter& operator=(TorchFileWriter&&) noexcept;
  ~TorchFileWriter();

  const TorchFileLayout& layout() const;

  /// Writes bytes of a storage at `offset` bytes from its start. Thread-safe for distinct bytes.
  Status write(int storage, uint64_t offset, std::span<const std::byte> bytes) const;

  /// Sets the CRC-32 of a storage's whole content. Thread-safe for distinct storages. Must be
  /// called for every storage without literal content before finish().
  void set_crc(int storage, uint32_t crc);

  /// Writes the local headers and the central directory and closes. Flushing to the device is the
  /// caller's (AtomicFolder does it). kInternal where a CRC is missing.
  Status finish();

  /// The file that is written.
  const io::PooledFile& file() const;

 private:
  struct State;
  explicit TorchFileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::checkpoint
