#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/model/internal/parameter_rows.h"
#include "tests/temp_folder.h"

namespace meg::model {
namespace {

/// A stem as docs/checkpoints.md shows it: without the layers' prefix and the character that joins
/// it.
std::string shown_stem(std::string_view stem) {
  const size_t layer = stem.find("{}.");
  if (layer != std::string_view::npos) stem.remove_prefix(layer + 3);
  stem.remove_suffix(1);
  return std::string(stem);
}

TEST(CheckpointDocs, ListEveryRowOfTheTableWithItsCut) {
  const std::string page = test::read_file(MEG_SOURCE_DIR "/docs/checkpoints.md");
  constexpr std::string_view kCuts[] = {"replicated", "rows", "columns",
                                        "vocabulary", "qkv",  "gated"};
  for (const ModuleRow& row : gpt_module_rows()) {
    const std::string_view stem = row.spellings[static_cast<size_t>(NameFamily::kMcoreLocal)].stem;
    const std::string mcore = shown_stem(stem);
    const std::string start = "| `" + mcore + stem.back();
    const std::string_view legacy = row.spellings[static_cast<size_t>(NameFamily::kLegacy)].stem;
    const std::string cut(kCuts[static_cast<size_t>(row.weight.partition)]);
    bool found = false;
    for (size_t at = page.find(start); at != std::string::npos && !found;
         at = page.find(start, at + 1)) {
      const std::string line = page.substr(at, page.find('\n', at) - at);
      const bool has_legacy = legacy.empty() || shown_stem(legacy) == mcore ||
                              line.find(legacy.substr(0, legacy.size() - 1)) != std::string::npos ||
                              line.find("`" + shown_stem(legacy)) != std::string::npos;
      found = has_legacy && line.find("| " + cut + " |") != std::string::npos;
    }
    EXPECT_TRUE(found) << mcore << ", cut " << cut;
  }
}

}  // namespace
}  // namespace meg::model
