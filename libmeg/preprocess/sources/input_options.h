#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meg::preprocess {

/// What an input holds.
enum class InputFormat {
  kAuto,  ///< Columns (Parquet, Arrow) by the first bytes, else by the name without .gz, .zst and
          ///< .xz: .csv, .txt, else JSON.
  kJson,  ///< An array where `[` is the first byte that is no whitespace, else lines.
  kCsv,   ///< RFC 4180.
  kTxt,
};

/// What is a document in a .txt.
enum class TxtDocument { kFile, kLine, kSeparated };

/// One of `count` shares of all inputs' documents, which are its in order. Of bytes of all inputs
/// together, share `index` has those from index / count on: the lines that begin there where a file
/// is plain lines, of columns the row groups, as if all had one size, else the files that begin
/// there, whole.
struct Shard {
  int64_t index = 0;
  int64_t count = 1;
};

/// How inputs are read.
struct InputOptions {
  InputFormat format = InputFormat::kAuto;

  /// One a JSON key, in their order; empty: the keys are the columns' names. All digits: the number
  /// of a column, from 0; else its name in the first row.
  std::vector<std::string> csv_columns;
  /// Whether the first row is skipped where columns are given by number.
  bool csv_has_header = false;

  TxtDocument txt_document = TxtDocument::kFile;
  std::string txt_separator;  ///< Of kSeparated; not empty.

  Shard shard;

  int64_t max_compression_ratio = 2000;  ///< As io::StreamOptions.
};

}  // namespace meg::preprocess
