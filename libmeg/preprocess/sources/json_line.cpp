#include "libmeg/preprocess/sources/json_line.h"

#include <utility>

#include "libmeg/text/json/fast_json.h"
#include "libmeg/text/json/python_json.h"

namespace meg::preprocess {

struct JsonLineParser::State {
  explicit State(std::vector<std::string> keys) : fast(keys), strict(std::move(keys)) {}

  text::FastJsonReader fast;
  text::PythonJsonReader strict;
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

const text::TextList& JsonLineParser::texts(size_t key) const {
  return state_->is_fast ? state_->fast.texts(key) : state_->strict.texts(key);
}

}  // namespace meg::preprocess
