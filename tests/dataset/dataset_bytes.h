#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/internal/tntidx_format.h"
#include "tests/temp_folder.h"

namespace meg::test {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::string bytes_string(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// An .idx file, field by field; each may be made wrong before bytes() puts them together.
struct IndexFields {
  std::string magic{dataset::kIndexMagic};
  uint64_t version = 1;
  uint8_t dtype_code = 8;
  std::vector<int32_t> lengths;
  std::vector<int64_t> pointers;
  std::vector<int64_t> documents = {0};
  std::vector<int8_t> modes;
  uint64_t sequence_count = 0;
  uint64_t document_index_count = 1;

  std::string bytes() const {
    return magic + bytes_string<uint64_t>({version}) + static_cast<char>(dtype_code) +
           bytes_string<uint64_t>({sequence_count, document_index_count}) + bytes_string(lengths) +
           bytes_string(pointers) + bytes_string(documents) + bytes_string(modes);
  }
};

/// Fields that agree with each other.
inline IndexFields index_fields(uint8_t dtype_code, std::vector<int32_t> lengths,
                                std::vector<int64_t> documents) {
  IndexFields fields;
  fields.dtype_code = dtype_code;
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    fields.pointers.push_back(pointer);
    pointer += length * dtype_size(dataset::index_dtype(dtype_code).value());
  }
  fields.sequence_count = lengths.size();
  fields.document_index_count = documents.size();
  fields.lengths = std::move(lengths);
  fields.documents = std::move(documents);
  return fields;
}

/// The same of TNTIDX. Two items of int32, [1] and [2 3], have the sizes 1 and 2, which begin at
/// dims 0 and 1, and at the data offsets 0 and 1.
struct TntidxFields {
  std::string magic{dataset::kTntidxMagic};
  uint64_t version = 1;
  uint64_t dtype_code = 4;
  uint64_t item_size = 4;
  uint64_t item_count = 0;
  uint64_t size_count = 0;
  uint64_t document_index_count = 1;
  std::vector<int64_t> dim_offsets = {0};
  std::vector<int64_t> data_offsets = {0};
  std::vector<int64_t> sizes;
  std::vector<int64_t> documents = {0};

  std::string bytes() const {
    return magic +
           bytes_string<uint64_t>(
               {version, dtype_code, item_size, item_count, size_count, document_index_count}) +
           bytes_string(dim_offsets) + bytes_string(data_offsets) + bytes_string(sizes) +
           bytes_string(documents);
  }
};

/// Fields of int32 items that agree with each other.
inline TntidxFields tntidx_fields(std::vector<int64_t> lengths, std::vector<int64_t> documents) {
  TntidxFields fields;
  for (const int64_t length : lengths) {
    fields.dim_offsets.push_back(fields.dim_offsets.back() + 1);
    fields.data_offsets.push_back(fields.data_offsets.back() + length);
  }
  fields.item_count = fields.size_count = lengths.size();
  fields.document_index_count = documents.size();
  fields.sizes = std::move(lengths);
  fields.documents = std::move(documents);
  return fields;
}

inline void write_dataset(const std::string& prefix, std::string_view idx, std::string_view bin) {
  // New files: writing over old ones waits for the disk on some file systems.
  std::filesystem::remove(prefix + ".idx");
  std::filesystem::remove(prefix + ".bin");
  write_file(prefix + ".idx", idx);
  write_file(prefix + ".bin", bin);
}

}  // namespace meg::test
