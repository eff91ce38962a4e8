#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/bin_file.h"
#include "libmeg/dataset/index_arrays.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/little_endian_array.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

struct TntidxHeader;
struct TntidxLayout;

/// The sequences [begin, end) of a dataset.
struct SequenceRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// A dataset of tokens (PREFIX.bin and PREFIX.idx, MMIDIDX or TNTIDX), mapped read-only. At s3://
/// the .idx is copied to this machine and mapped there, and only the items that are read are
/// fetched from .bin.
///
/// Opening costs the same for any size: it checks the header, the sizes and the ends of the arrays,
/// not every entry (verify_dataset does). Accessors check what they read, so that a damaged file
/// gives kCorruption and never bytes outside it. Views are valid as long as the object lives, moved
/// or not. Safe for any number of threads.
/// Mirrors Megatron-LM megatron/core/datasets/indexed_dataset.py: IndexedDataset, and 6ef5bdc
/// megatron/data/indexed_dataset.py: IndexedDataset, IndexedCachedDataset.
class IndexedDataset {
 public:
  struct Options {
    /// Whether the .idx ends with sequence modes, as none of TNTIDX does; nullopt: the file's size
    /// tells.
    std::optional<bool> multimodal = {};
    /// How .bin will be accessed.
    io::MappedFile::Access access = io::MappedFile::Access::kNormal;
    /// The folder for the copy of .idx from s3:// (--object-storage-cache-path), in which it has
    /// the path that Megatron uses; empty: a temporary file, which is removed with the dataset.
    std::string idx_cache = {};
    /// Take TNTIDX items of several dimensions, which tokens never have, as sequences of their
    /// values in C order. Then opening reads every entry of the .idx and keeps 4 bytes a sequence
    /// and 8 a document.
    bool flatten = false;
  };

  /// prefix: may end in ".bin" or ".idx". kUnsupported for other versions, for TNTIDX files whose
  /// items have several dimensions, unless they are flattened, and for addresses other than s3://.
  static Result<IndexedDataset> open(const std::string& prefix, const Options& options);

  static Result<IndexedDataset> open(const std::string& prefix) { return open(prefix, Options()); }

  const std::string& prefix() const { return prefix_; }

  IndexFormat format() const { return format_; }

  DType dtype() const { return dtype_; }

  /// Bytes of one item.
  int64_t item_size() const { return item_size_; }

  bool multimodal() const { return multimodal_; }

  /// Whether items of several dimensions were flattened.
  bool flattened() const { return flat_ != nullptr; }

  /// The sizes of an item, the slowest first: its length, unless it was flattened. 0 <= sequence <
  /// sequence_count().
  std::vector<int64_t> shape(int64_t sequence) const;

  int64_t sequence_count() const { return arrays_.sequence_lengths.size(); }

  int64_t document_count() const { return arrays_.document_indices.size() - 1; }

  /// Number of tokens: the sum of the lengths, all of which it reads. This does not determine
  /// .bin's size: in a view, sequences may share bytes or skip some.
  int64_t item_count() const;

  const io::MappedFile& idx() const { return idx_; }

  /// The bytes of .idx before its arrays.
  std::span<const std::byte> header() const;

  const BinFile& bin() const { return bin_; }

  /// S lengths, in items.
  LittleEndianArray<int32_t> sequence_lengths() const { return arrays_.sequence_lengths; }

  /// S byte offsets into .bin.
  LittleEndianArray<int64_t> sequence_pointers() const { return arrays_.sequence_pointers; }

  /// D = documents + 1 sequence numbers; document d is the sequences [x(d), x(d + 1)).
  LittleEndianArray<int64_t> document_indices() const { return arrays_.document_indices; }

  /// S modes; empty if the dataset is not multimodal.
  LittleEndianArray<int8_t> sequence_modes() const { return modes_; }

  /// kOutOfRange unless 0 <= document < document_count().
  Result<SequenceRange> document(int64_t document) const;

  /// Number of items of a sequence. kOutOfRange if there is no such sequence, kCorruption if it is
  /// not inside .bin.
  Result<int64_t> sequence_length(int64_t sequence) const;

  /// The items of a sequence, little endian, in place. kUnsupported at s3://, where nothing is
  /// mapped.
  Result<std::span<const std::byte>> sequence(int64_t sequence) const;

  /// `length` items of it, starting at item `offset`: in place, or at s3:// in `buffer`.
  /// kOutOfRange if it does not have that many.
  Result<std::span<const std::byte>> sequence(int64_t sequence, int64_t offset, int64_t length,
                                              std::vector<std::byte>& buffer) const;

  /// The items of a sequence as T, in place. kInvalidArgument where T is not the dataset's type,
  /// kUnsupported at s3://.
  template <class T>
  Result<std::span<const T>> tokens(int64_t sequence) const {
    MEG_ASSIGN_OR_RETURN(const auto bytes, items_of_type(sequence, dtype_of<T>()));
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }

  /// Copies out.size() items of a sequence, from item `offset` on, whatever integer type they have.
  /// kInvalidArgument for floating-point datasets, kOutOfRange where an item does not fit.
  Status copy_tokens(int64_t sequence, int64_t offset, std::span<int32_t> out) const;
  Status copy_tokens(int64_t sequence, int64_t offset, std::span<int64_t> out) const;

 private:
  struct ByteRange {
    int64_t begin = 0;
    int64_t size = 0;
  };

  Status open_mmididx(const Options& options);
  Status map_arrays(const IndexHeader& header, const Options& options);
  Status open_tntidx(const Options& options);
  Status map_tntidx_arrays(const TntidxHeader& header, bool flatten);
  Status flatten_items(const TntidxLayout& layout);
  std::span<const std::byte> idx_bytes(int64_t begin, int64_t end) const;
  Status check_ends() const;
  bool has_own_size(int64_t sequence) const;
  /// The bytes of .bin that are the sequence; checks that .bin has all of them.
  Result<ByteRange> bytes_of(int64_t sequence) const;
  Result<std::span<const std::byte>> items_of_type(int64_t sequence, DType dtype) const;

  std::string prefix_;
  io::MappedFile idx_;
  BinFile bin_;
  IndexFormat format_ = IndexFormat::kMmididx;
  DType dtype_ = DType::kInt32;
  int64_t item_size_ = 0;
  bool multimodal_ = false;
  IndexArrays arrays_;
  LittleEndianArray<int8_t> modes_;

  /// What takes the place of arrays of the .idx where items have several dimensions.
  struct FlatItems {
    std::vector<std::byte> lengths, document_indices;
    LittleEndianArray<int64_t> dim_offsets, sizes;  // of the .idx
  };

  std::shared_ptr<const FlatItems> flat_;
};

}  // namespace meg::dataset
