#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/shared_data.h"

namespace meg::test {

inline constexpr char kDatasetOracle[] = "oracle/datasets";

inline const nlohmann::json& dataset_oracle() {
  static const nlohmann::json loaded = [] {
    std::ifstream file(shared_path("oracle/datasets/manifest.json"));
    return nlohmann::json::parse(file);
  }();
  return loaded;
}

/// The bytes of an output of the manifest's index case, whatever name they are stored under.
inline std::string oracle_output(const nlohmann::json& index_case, const std::string& file) {
  const std::string path = "C/" + index_case["revision"].get<std::string>() + "/" +
                           index_case["case"].get<std::string>() + "/" + file;
  for (const auto& output : index_case["outputs"]) {
    if (output["path"] != path) continue;
    const std::string stored = output.contains("stored") ? output["stored"] : output["path"];
    std::ifstream in(shared_path(std::string(kDatasetOracle) + "/" + stored), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  return {};
}

template <class T>
std::vector<int64_t> widened(const std::string& bytes) {
  std::vector<int64_t> values;
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value = 0;
    bytes.copy(reinterpret_cast<char*>(&value), sizeof(T), at);
    values.push_back(static_cast<int64_t>(value));
  }
  return values;
}

/// The integers of an .npy file, by its first axis.
inline std::vector<std::vector<int64_t>> npy_rows(const std::string& bytes) {
  const auto header_byte = [&](size_t at) { return size_t{static_cast<uint8_t>(bytes.at(at))}; };
  const size_t data = 10 + header_byte(8) + 256 * header_byte(9);
  const std::string header = bytes.substr(0, data);
  const std::string body = bytes.substr(data);
  const auto values = header.find("i8") != std::string::npos   ? widened<int64_t>(body)
                      : header.find("i4") != std::string::npos ? widened<int32_t>(body)
                                                               : widened<uint8_t>(body);
  const size_t rows = std::stoul(header.substr(header.find("'shape': (") + 10));
  const auto row_size = static_cast<int64_t>(values.size() / rows);
  std::vector<std::vector<int64_t>> found;
  for (auto row = values.begin(); row != values.end(); row += row_size) {
    found.emplace_back(row, row + row_size);
  }
  return found;
}

}  // namespace meg::test
