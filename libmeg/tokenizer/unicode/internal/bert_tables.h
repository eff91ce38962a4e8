#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

// What BERT tokenization asks Python about characters, expanded from files of ranges.
namespace meg::tokenizer {

namespace bert_property_tables {
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];
}  // namespace bert_property_tables

namespace bert_fold_tables {
extern const uint8_t kStage1[kStage1Size];
extern const uint16_t kStage2[][kBlockSize];  // places in kSequences
extern const char32_t kSequences[];           // of each a count, then its code points
}  // namespace bert_fold_tables

namespace bert_combining_class_tables {
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];
}  // namespace bert_combining_class_tables

}  // namespace meg::tokenizer
