#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/zip/internal/zip_format.h"
#include "libmeg/io/crc32.h"

namespace meg::test {

/// A zip archive of stored entries as plain zip programs make it, whose records tests can find and
/// damage.
class ZipBytes {
 public:
  void add(const std::string& name, std::string_view content) {
    Entry entry = {.name = name,
                   .size = static_cast<uint32_t>(content.size()),
                   .crc = computes_crcs ? io::crc32(std::as_bytes(std::span(content))) : 0,
                   .local = bytes.size()};
    put<uint32_t>(checkpoint::zip::kLocalHeaderSignature);
    put<uint16_t>(20);
    put<uint16_t>(0);  // flags
    put_common(entry);
    bytes += name;
    entry.data = bytes.size();
    bytes += content;
    entries.push_back(entry);
  }

  void finish() {
    const size_t begin = bytes.size();
    for (Entry& entry : entries) {
      entry.directory = bytes.size();
      put<uint32_t>(checkpoint::zip::kDirectoryHeaderSignature);
      put<uint16_t>(20);
      put<uint16_t>(20);
      put<uint16_t>(0);  // flags
      put_common(entry);
      put<uint16_t>(0);  // comment
      put<uint16_t>(0);  // disk
      put<uint16_t>(0);
      put<uint32_t>(0);
      put<uint32_t>(static_cast<uint32_t>(entry.local));
      bytes += entry.name;
    }
    end = bytes.size();
    put<uint32_t>(checkpoint::zip::kEndSignature);
    put<uint32_t>(0);
    put<uint16_t>(static_cast<uint16_t>(entries.size()));
    put<uint16_t>(static_cast<uint16_t>(entries.size()));
    put<uint32_t>(static_cast<uint32_t>(end - begin));
    put<uint32_t>(static_cast<uint32_t>(begin));
    put<uint16_t>(0);  // comment
  }

  struct Entry {
    std::string name;
    uint32_t size = 0;
    uint32_t crc = 0;
    size_t local = 0;  ///< Where its local header, data and directory header begin.
    size_t data = 0;
    size_t directory = 0;
  };

  bool computes_crcs = true;
  std::string bytes;
  std::vector<Entry> entries;
  size_t end = 0;  ///< Where the end record begins.

 private:
  template <class T>
  void put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  /// Writes the fields from the method to the extra fields' size, the same in both headers.
  void put_common(const Entry& entry) {
    put<uint16_t>(checkpoint::zip::kMethodStored);
    put<uint32_t>(0);  // time
    put<uint32_t>(entry.crc);
    put<uint32_t>(entry.size);
    put<uint32_t>(entry.size);
    put<uint16_t>(static_cast<uint16_t>(entry.name.size()));
    put<uint16_t>(0);  // extra
  }
};

}  // namespace meg::test
