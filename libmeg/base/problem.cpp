#include "libmeg/base/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace meg {

std::string Problem::message() const {
  std::string text = file.empty() ? "" : file + ": ";
  if (byte_offset) text += fmt::format("byte {}: ", *byte_offset);
  text += fmt::format("{}: ", check);
  if (!subject.empty()) {
    text += subject;
    if (!byte_offset && !index.empty()) text += fmt::format("[{}]", fmt::join(index, ", "));
    text += ": ";
  }
  text += expected.empty() ? found : fmt::format("expected {}, found {}", expected, found);
  if (count > 1) text += fmt::format(" (and {} more)", count - 1);
  if (!likely_cause.empty()) text += fmt::format("; likely cause: {}", likely_cause);
  return text;
}

}  // namespace meg
