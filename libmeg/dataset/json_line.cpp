#include "libmeg/dataset/json_line.h"

#include <utility>

#include "libmeg/dataset/fast_json.h"
#include "libmeg/dataset/python_json.h"

namespace meg {

struct JsonLineParser::State {
  explicit State(std::vector<std::string> keys) : fast(keys), strict(std::move(keys)) {}

  FastJsonReader fast;
  PythonJsonReader strict;
  bool is_fast = true;  // which of them read the last line
};

JsonLineParser::JsonLineParser(std::vector<std::string> keys)
    : state_(std::make_unique<State>(std::move(keys))) {}

JsonLineParser::JsonLineParser(JsonLineParser&&) noexcept = default;
JsonLineParser& JsonLineParser::operator=(JsonLineParser&&) noexcept = default;
JsonLineParser::~JsonLineParser() = default;

Status JsonLineParser::parse(std::string_view line) {
  state_->is_fast = state_->fast.read(line);
  return state_->is_fast ? Status() : state_->strict.read(line);
}

const TextList& JsonLineParser::texts(size_t key) const {
  return state_->is_fast ? state_->fast.texts(key) : state_->strict.texts(key);
}

}  // namespace meg
