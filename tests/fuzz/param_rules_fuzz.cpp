// Any bytes as a --param-rules file and, after the first NUL, as a parameter's name: an error that
// names a line, or rules that give names back as they were.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/model/parameter_table.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

void check_match(const meg::model::ParameterTable& table, std::string_view name) {
  const auto match = table.match(name);
  if (!match) return;
  MEG_FUZZ_CHECK(!match->canonical.empty() && !match->families.empty());
  if (!match->layer) {
    MEG_FUZZ_CHECK(match->spelling == name);
    return;
  }
  MEG_FUZZ_CHECK(*match->layer >= 0);
  MEG_FUZZ_CHECK(match->spelling.find("{}") != std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;  // patterns compile slowly
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  meg::Result<meg::model::ParameterTable> table = meg::model::ParameterTable::gpt();
  MEG_FUZZ_CHECK(table.has_value());
  const meg::Status status = table->add_rules(input.substr(0, end), "rules.txt");
  if (!status.ok()) {
    MEG_FUZZ_CHECK(status.code() == meg::StatusCode::kInvalidArgument);
    MEG_FUZZ_CHECK(status.message().starts_with("rules.txt:"));
    MEG_FUZZ_CHECK(status.message().find('\n') == std::string::npos);
  }
  check_match(*table, input.substr(std::min(end + 1, input.size())));
  check_match(*table, "decoder.layers.3.self_attention.linear_qkv.weight");
  return 0;
}
