#include "tools/common/field_flags.h"

#include <algorithm>
#include <utility>

#include "libmeg/megatron/argument_table.h"

namespace meg::tools {
namespace {

/// Flags of our own with other names than the fields that they set.
constexpr std::pair<std::string_view, std::string_view> kOwnFlags[] = {
    {"ignore_optimizer = true", "--no-optim"},
    {"include_optimizer = false", "--no-optim"},
    {"keep_optimizer = false", "--no-optim"},
    {"check_masters = false", "--no-master-check"},
    {"distributed_optimizer = false", "--target-optimizer plain"},
    {"csv_columns", "--csv-column"},
    {"csv_has_header", "--csv-header"},
};

constexpr std::string_view kAssigns = " = ";

/// "name" or "name = value".
bool is_field(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(kAssigns));
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  return !name.empty() && name.find_first_not_of(kLetters) == name.npos;
}

std::string flag_of(std::string_view text) {
  for (const auto& [field, flag] : kOwnFlags) {
    if (field == text) return std::string(flag);
  }
  const std::string_view name = text.substr(0, text.find(kAssigns));
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  // Several flags may set a field; if none has its name, the first one is meant.
  std::string_view other;
  for (const megatron::ArgumentFamily family : megatron::kArgumentFamilies) {
    for (const megatron::ArgumentRow& row : megatron::argument_rows(family)) {
      if (row.dest != name) continue;
      if (row.flag == flag) return flag;
      if (other.empty()) other = row.flag;
    }
  }
  return other.empty() ? flag : std::string(other);
}

}  // namespace

std::string with_flags(std::string_view message) {
  std::string text;
  while (true) {
    const size_t begin = message.find('`');
    const size_t end = begin == message.npos ? begin : message.find('`', begin + 1);
    if (end == message.npos) return text.append(message);
    const std::string_view marked = message.substr(begin + 1, end - begin - 1);
    text.append(message.substr(0, begin));
    if (is_field(marked)) {
      text += flag_of(marked);
      message.remove_prefix(end + 1);
    } else {
      // The second mark may begin a field.
      text.append(message.substr(begin, end - begin));
      message.remove_prefix(end);
    }
  }
}

}  // namespace meg::tools
