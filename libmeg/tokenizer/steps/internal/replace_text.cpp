#include "libmeg/tokenizer/steps/internal/replace_text.h"

#include <algorithm>

namespace meg::tokenizer {
namespace {

/// Bytes at the end of text that `pattern` begins with but does not end with.
size_t size_of_beginning(std::string_view text, std::string_view pattern) {
  size_t size = std::min(text.size(), pattern.size() - 1);
  while (!text.ends_with(pattern.substr(0, size))) --size;
  return size;
}

}  // namespace

void replace_all(std::string& text, std::string_view from, std::string_view to, bool more_follows) {
  size_t done = 0;
  for (size_t at = 0; (at = text.find(from, done)) != std::string::npos; done = at + to.size()) {
    text.replace(at, from.size(), to);
  }
  if (!more_follows) return;
  text.resize(text.size() - size_of_beginning(std::string_view(text).substr(done), from));
}

}  // namespace meg::tokenizer
