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

inline void write_dataset(const std::string& prefix, std::string_view idx, std::string_view bin) {
  // New files: writing over old ones waits for the disk on some file systems.
  std::filesystem::remove(prefix + ".idx");
  std::filesystem::remove(prefix + ".bin");
  write_file(prefix + ".idx", idx);
  write_file(prefix + ".bin", bin);
}

}  // namespace meg::test
