#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meg::test {

inline std::string read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Bytes of the first stored entry whose name ends in data.pkl, found without libmeg's zip reader:
/// by its local header.
inline std::optional<std::string> find_data_pkl(std::string_view archive) {
  const auto field = [archive](size_t at, size_t size) {
    size_t value = 0;
    for (size_t i = size; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(archive[at + i]);
    return value;
  };
  for (size_t at = archive.find("PK\3\4"); at != std::string_view::npos;
       at = archive.find("PK\3\4", at + 4)) {
    if (archive.size() - at < 30) break;
    const size_t name_size = field(at + 26, 2);
    const size_t begin = at + 30 + name_size + field(at + 28, 2);
    if (begin > archive.size()) break;
    if (!archive.substr(at + 30, name_size).ends_with("data.pkl")) continue;
    // torch leaves sizes to the descriptor after the bytes, so end at the next header.
    const size_t end = std::min(archive.find("PK\7\10", begin), archive.find("PK\3\4", begin));
    return std::string(archive.substr(begin, end - begin));
  }
  return std::nullopt;
}

}  // namespace meg::test
