#include <algorithm>
#include <iterator>

#include "libmeg/preprocess/sources/internal/column_reader.h"

namespace meg::preprocess {
namespace {

struct Row {
  std::string_view magic;
  ColumnFormat format;
  std::string_view name;
  bool is_read = true;
};

constexpr std::string_view kStreamMagic = "\xff\xff\xff\xff";

constexpr Row kRows[] = {
    {"PAR1", ColumnFormat::kParquet, "Parquet"},
    {"PARE", ColumnFormat::kEncryptedParquet, "encrypted Parquet", false},
    {"ARROW1", ColumnFormat::kArrowFile, "Arrow"},
    {"FEA1", ColumnFormat::kFeather1, "Feather version 1", false},
    {kStreamMagic, ColumnFormat::kArrowStream, "Arrow stream"},
};

}  // namespace

ColumnFormat column_format_of(std::string_view begin) {
  for (const Row& row : kRows) {
    if (begin.starts_with(row.magic)) return row.format;
  }
  return ColumnFormat::kNone;
}

bool is_column_format_read(ColumnFormat format) {
  return std::any_of(std::begin(kRows), std::end(kRows),
                     [format](const Row& row) { return row.format == format && row.is_read; });
}

std::string_view column_format_name(ColumnFormat format) {
  for (const Row& row : kRows) {
    if (row.format == format) return row.name;
  }
  return {};
}

}  // namespace meg::preprocess
