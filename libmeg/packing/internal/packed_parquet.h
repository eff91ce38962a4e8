#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/io/atomic_file.h"

namespace meg::packing {

/// Writes Megatron-Bridge's packed Parquet: a row for each packed sequence, with the lists
/// `input_ids` (int32), `loss_mask` (int8, of the token that follows, as Megatron-Bridge has it)
/// and `seq_start_id` (int32). Version 1 of the format, not compressed. Mirrors Megatron-Bridge
/// data/packing/parquet.py: write_packed_parquet.
class PackedParquetWriter {
 public:
  /// dtype: of the tokens, kUint16 or kInt32.
  static Result<PackedParquetWriter> create(const std::string& path, DType dtype);

  /// A conversation of the row. mask: 0 or 1 for each token.
  void add_sequence(std::span<const std::byte> tokens, std::span<const std::byte> mask);

  Status end_row();

  /// Completes the file, which file() then publishes.
  Status finish();

  io::AtomicFile& file() { return file_; }

 private:
  /// A column of lists: all values of a row group, and how many each row has.
  struct Column {
    std::vector<int32_t> values;
    std::vector<size_t> lengths;
  };

  struct Chunk {
    int64_t offset = 0;
    int64_t bytes = 0;
    int64_t values = 0;
  };

  struct RowGroup {
    std::vector<Chunk> chunks;
    int64_t rows = 0;
  };

  PackedParquetWriter(io::AtomicFile file, DType dtype) : file_(std::move(file)), dtype_(dtype) {}

  Status write(const std::string& bytes);
  Status write_row_group();
  std::string footer() const;

  io::AtomicFile file_;
  DType dtype_;
  int64_t written_ = 0;  // bytes
  std::vector<Column> columns_;
  std::vector<RowGroup> groups_;
};

}  // namespace meg::packing
