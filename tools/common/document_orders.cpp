#include "tools/common/document_orders.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "libmeg/dataset/provenance.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/numpy/random_state.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"
#include "tools/common/interruption.h"

namespace meg::tools {
namespace {

using dataset::SequenceRange;

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<SequenceRange> parse_range(std::string_view text, int64_t count) {
  const size_t colon = text.find(':');
  const auto wrong = [&] {
    return make_error(StatusCode::kInvalidArgument,
                      "expected documents such as 5 or 10:20, found {}", text::printable(text));
  };
  const std::optional<int64_t> first = number(text.substr(0, colon));
  if (colon == std::string_view::npos) {
    if (!first) return wrong();
    if (*first < 0 || *first >= count) {
      return make_error(StatusCode::kOutOfRange, "expected documents of 0 to {}, found {}",
                        count - 1, *first);
    }
    return SequenceRange{*first, *first + 1};
  }
  const std::string_view rest = text.substr(colon + 1);
  const std::optional<int64_t> last = number(rest);
  if ((colon > 0 && !first) || (!rest.empty() && !last)) return wrong();
  const auto placed = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + count : at, 0, count);
  };
  const SequenceRange range{placed(first.value_or(0)), placed(last.value_or(count))};
  return SequenceRange{range.begin, std::max(range.begin, range.end)};
}

/// In order, without what is there twice.
DocumentRanges merged(DocumentRanges ranges) {
  std::ranges::sort(ranges, {}, &SequenceRange::begin);
  DocumentRanges kept;
  for (const SequenceRange& range : ranges) {
    if (range.begin == range.end) continue;
    if (!kept.empty() && range.begin <= kept.back().end) {
      kept.back().end = std::max(kept.back().end, range.end);
    } else {
      kept.push_back(range);
    }
  }
  return kept;
}

/// Adds document number `document`, which is behind all others.
void append(DocumentRanges& ranges, int64_t document) {
  if (!ranges.empty() && ranges.back().end == document) {
    ++ranges.back().end;
  } else {
    ranges.push_back({document, document + 1});
  }
}

Status parse_list(std::string_view text, int64_t count, DocumentRanges& ranges) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    MEG_ASSIGN_OR_RETURN(const SequenceRange range,
                         parse_range(text::trimmed(text.substr(0, comma)), count));
    ranges.push_back(range);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

Result<int64_t> tokens_of(const dataset::IndexedDataset& set, int64_t document) {
  MEG_ASSIGN_OR_RETURN(const SequenceRange sequences, set.document(document));
  int64_t tokens = 0;
  for (int64_t at = sequences.begin; at < sequences.end; ++at) {
    MEG_ASSIGN_OR_RETURN(const int64_t length, set.sequence_length(at));
    tokens += length;
  }
  return tokens;
}

dataset::DocumentOrder permuted(std::vector<uint32_t> documents) {
  const auto held = std::make_shared<const std::vector<uint32_t>>(std::move(documents));
  return [held](const auto& take) -> Status {
    for (const uint32_t document : *held)
      MEG_RETURN_IF_ERROR(take(document, int64_t{document} + 1));
    return {};
  };
}

Result<std::vector<uint32_t>> all_documents(int64_t count) {
  if (count > std::numeric_limits<uint32_t>::max()) {
    return make_error(StatusCode::kOutOfRange, "expected fewer than 2^32 documents, found {}",
                      count);
  }
  std::vector<uint32_t> documents(static_cast<size_t>(count));
  std::iota(documents.begin(), documents.end(), 0U);
  return documents;
}

}  // namespace

Result<DocumentRanges> parse_documents(const std::string& text, int64_t count) {
  DocumentRanges ranges;
  // An empty variable of a shell, which would silently select nothing.
  if (text::trimmed(text).empty()) return parse_range(text, count).error();
  MEG_RETURN_IF_ERROR(parse_list(text, count, ranges));
  return merged(std::move(ranges));
}

Result<DocumentRanges> read_documents(const std::string& path, int64_t count) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  std::string_view rest = file.text();
  DocumentRanges ranges;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const Status status = parse_list(text::trimmed(rest.substr(0, end)), count, ranges);
    if (!status.ok()) return status.with_prefix(fmt::format("{}: line {}", path, line));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return merged(std::move(ranges));
}

Result<DocumentRanges> documents_from(const dataset::IndexedDataset& set,
                                      const std::string& pattern) {
  const RE2 expression(pattern, RE2::Quiet);
  if (!expression.ok()) {
    return make_error(StatusCode::kInvalidArgument, "expected a regular expression, found {}: {}",
                      text::printable(pattern), expression.error());
  }
  MEG_ASSIGN_OR_RETURN(const auto provenance, dataset::Provenance::open_beside(set.prefix()));
  if (!provenance) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected this file, which preprocess_data --provenance writes",
                      dataset::provenance_path(set.prefix()));
  }
  std::vector<bool> matches;
  for (int64_t i = 0; i < provenance->source_count(); ++i) {
    matches.push_back(RE2::PartialMatch(std::string(provenance->source(i)), expression));
  }
  DocumentRanges ranges;
  for (int64_t document = 0; document < provenance->document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(const dataset::DocumentPlace place, provenance->place(document));
    const bool is_known = place.source != dataset::DocumentPlace::kUnknownSource;
    if (is_known && matches[place.source]) append(ranges, document);
  }
  return ranges;
}

DocumentRanges others(const DocumentRanges& ranges, int64_t count) {
  DocumentRanges kept;
  int64_t at = 0;
  for (const SequenceRange& range : ranges) {
    if (range.begin > at) kept.push_back({at, range.begin});
    at = range.end;
  }
  if (at < count) kept.push_back({at, count});
  return kept;
}

dataset::DocumentOrder in_order(DocumentRanges ranges) {
  return [ranges = std::move(ranges)](const auto& take) -> Status {
    for (const SequenceRange& range : ranges) MEG_RETURN_IF_ERROR(take(range.begin, range.end));
    return {};
  };
}

dataset::DocumentOrder every(DocumentRanges ranges, int64_t n) {
  if (n == 1) return in_order(std::move(ranges));
  return [ranges = std::move(ranges), n](const auto& take) -> Status {
    int64_t skipped = 0;  // documents of the ranges before since the last one that was taken
    for (const SequenceRange& range : ranges) {
      int64_t at = range.begin + skipped;
      for (; at < range.end; at += n) MEG_RETURN_IF_ERROR(take(at, at + 1));
      skipped = at - range.end;
    }
    return {};
  };
}

Result<DocumentRanges> within_tokens(const dataset::IndexedDataset& set,
                                     const DocumentRanges& ranges, int64_t tokens) {
  DocumentRanges kept;
  for (const SequenceRange& range : ranges) {
    for (int64_t document = range.begin; document < range.end; ++document) {
      MEG_ASSIGN_OR_RETURN(const int64_t found, tokens_of(set, document));
      if (found > tokens) return kept;
      tokens -= found;
      append(kept, document);
    }
  }
  return kept;
}

Result<dataset::DocumentOrder> shuffled(int64_t count, uint32_t seed) {
  MEG_ASSIGN_OR_RETURN(std::vector<uint32_t> documents, all_documents(count));
  if (!numpy::RandomState(seed).shuffle(documents, interrupted)) {
    return Status(StatusCode::kCancelled, "shuffle: cancelled");
  }
  return permuted(std::move(documents));
}

Result<dataset::DocumentOrder> by_length(const dataset::IndexedDataset& set, bool descending) {
  MEG_ASSIGN_OR_RETURN(std::vector<uint32_t> documents, all_documents(set.document_count()));
  std::vector<int64_t> tokens;
  tokens.reserve(documents.size());
  for (const uint32_t document : documents) {
    MEG_ASSIGN_OR_RETURN(const int64_t found, tokens_of(set, document));
    tokens.push_back(found);
  }
  std::ranges::stable_sort(documents, [&](uint32_t a, uint32_t b) {
    return descending ? tokens[a] > tokens[b] : tokens[a] < tokens[b];
  });
  return permuted(std::move(documents));
}

}  // namespace meg::tools
