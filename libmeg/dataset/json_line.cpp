#include "libmeg/dataset/json_line.h"

#include <utility>

#include "libmeg/dataset/python_json.h"

namespace meg {

struct JsonLineParser::State {
  explicit State(std::vector<std::string> keys) : strict(std::move(keys)) {}

  PythonJsonReader strict;
};

JsonLineParser::JsonLineParser(std::vector<std::string> keys)
    : state_(std::make_unique<State>(std::move(keys))) {}

JsonLineParser::JsonLineParser(JsonLineParser&&) noexcept = default;
JsonLineParser& JsonLineParser::operator=(JsonLineParser&&) noexcept = default;
JsonLineParser::~JsonLineParser() = default;

Status JsonLineParser::parse(std::string_view line) { return state_->strict.read(line); }

std::span<const std::string_view> JsonLineParser::texts(size_t key) const {
  return state_->strict.texts(key);
}

}  // namespace meg
