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

/// The rows of a two-dimensional .npy file (or the first axis and all the rest) of type T, widened.
template <class T>
std::vector<std::vector<int64_t>> npy_rows(const std::string& bytes) {
  const size_t data =
      10 + static_cast<uint8_t>(bytes.at(8)) + 256U * static_cast<uint8_t>(bytes.at(9));
  const std::string header = bytes.substr(0, data);
  const size_t rows = std::stoul(header.substr(header.find("'shape': (") + 10));
  const size_t row_size = (bytes.size() - data) / sizeof(T) / rows;
  std::vector<std::vector<int64_t>> found(rows);
  for (size_t i = 0; i < rows * row_size; ++i) {
    T value = 0;
    bytes.copy(reinterpret_cast<char*>(&value), sizeof(T), data + i * sizeof(T));
    found[i / row_size].push_back(static_cast<int64_t>(value));
  }
  return found;
}

}  // namespace meg::test
