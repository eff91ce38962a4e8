#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/shared_data.h"

namespace meg::test {

/// A file of oracle/training, with null for Python's NaN and Infinity.
inline nlohmann::json oracle_json(const std::string& name) {
  std::ifstream file(shared_path("oracle/training/" + name));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const std::string word : {"-Infinity", "Infinity", "NaN"}) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
      text.replace(at, word.size(), "null");
    }
  }
  return nlohmann::json::parse(text);
}

}  // namespace meg::test
