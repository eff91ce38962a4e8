// Any text as JSON array, csv and plain text: the documents, their places and the error are the
// same whether the text comes at once or in pieces, and lie inside it. The first byte chooses the
// pieces.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/preprocess/sources/internal/document_reader.h"
#include "libmeg/preprocess/sources/internal/record_scanner.h"
#include "libmeg/text/text_padding.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace meg::preprocess;

struct Found {
  std::string document;
  int64_t line;
  int64_t column;

  bool operator==(const Found&) const = default;
};

struct Outcome {
  std::vector<Found> documents;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

/// Scans as a StreamReader does, `piece` bytes at a time.
Outcome scan(InputFormat format, const InputOptions& options, std::string_view text, size_t piece) {
  const std::vector<std::string> keys = {"text"};
  const std::unique_ptr<RecordScanner> scanner = make_scanner(format, options, keys);
  DocumentReader reader(keys);
  Outcome outcome;
  int64_t lines = 0;
  for (size_t begin = 0, end = 0;;) {
    end = std::min(text.size(), end + piece);
    const std::string_view window = text.substr(begin, end - begin);
    const bool is_end = end == text.size();
    const meg::Status status = scanner->scan(window, is_end);
    if (!status.ok()) {
      outcome.error = status.message();
      return outcome;
    }
    MEG_FUZZ_CHECK(scanner->end() <= window.size() && (!is_end || scanner->end() == window.size()));
    if (scanner->end() == 0 && !is_end) continue;
    begin += scanner->end();
    TextChunk chunk;
    scanner->take(window, chunk);
    for (size_t i = 0; i < chunk.records.size(); ++i) {
      const Record& record = chunk.records[i];
      MEG_FUZZ_CHECK(record.begin <= window.size() && record.size <= window.size() - record.begin);
      std::string document(window.substr(record.begin, record.size));
      outcome.documents.push_back({document, lines + record.line, record.column});
      document.append(meg::text::kTextPadding, '\0');
      static_cast<void>(reader.read(std::string_view(document).substr(0, record.size), i, chunk));
    }
    lines += chunk.line_count;
    if (is_end) return outcome;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  InputOptions options;
  for (const std::string separator : {"", "\n", "--"}) {
    options.txt_separator = separator;
    options.txt_document = separator.empty() ? TxtDocument::kFile : TxtDocument::kSeparated;
    for (const InputFormat format : {InputFormat::kJson, InputFormat::kCsv, InputFormat::kTxt}) {
      const Outcome whole = scan(format, options, text, text.size() + 1);
      const Outcome pieces = scan(format, options, text, 1 + data[0] % 32);
      MEG_FUZZ_CHECK(whole.error == pieces.error);
      // At once an error hides the documents before it.
      MEG_FUZZ_CHECK(!whole.error.empty() || whole == pieces);
    }
  }
  return 0;
}
