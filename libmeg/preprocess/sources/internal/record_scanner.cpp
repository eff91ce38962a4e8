#include "libmeg/preprocess/sources/internal/record_scanner.h"

#include <algorithm>
#include <utility>

#include "libmeg/preprocess/sources/internal/csv_scanner.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/printable.h"

// Scanners see a text that grows: scan() is called again with more bytes after the same begin.
// Each of them keeps position_, before which nothing new can be found, so that a document of n
// bytes that arrives in pieces costs n, not n per piece.

namespace meg::preprocess {
namespace {

constexpr std::string_view kJsonWhitespace = " \t\r\n";

class LineScanner : public RecordScanner {
 public:
  explicit LineScanner(RecordFormat format) : RecordScanner(format) {}

  Status scan(std::string_view text, bool is_end) override {
    // In a text that is new the last end of a line is looked for, from the back. Where a text
    // without an end has grown, only what was added can have one, and the first ends the wait. A CR
    // may wait for its LF.
    const std::string_view added = text.substr(position_);
    const size_t found = end_ == 0 && position_ > 0 ? text::first_line_end(added, is_end)
                                                    : text::last_line_end(added, is_end);
    if (found != text::kNoLineEnd) end_ = position_ + found;
    if (is_end) end_ = text.size();
    // The CR is looked at again with what follows it.
    position_ = text.size() - (text.ends_with('\r') ? 1 : 0);
    return Status();
  }

  void take(std::string_view text, TextChunk& chunk) override {
    RecordScanner::take(text, chunk);
    chunk.line_count = 0;
  }
};

/// Lines, or the elements of an array: the first byte that is no whitespace decides.
class JsonScanner : public LineScanner {
 public:
  JsonScanner() : LineScanner(RecordFormat::kJsonLines) {}

  Status scan(std::string_view text, bool is_end) override {
    if (state_ == State::kUndecided) decide(text);
    if (format_ == RecordFormat::kJsonLines) return LineScanner::scan(text, is_end);
    while (position_ < text.size()) {
      if (state_ == State::kElement) {
        skip_in_element(text);
      } else {
        MEG_RETURN_IF_ERROR(step(text));
      }
    }
    if (!is_end) return Status();
    if (state_ != State::kEnd)
      return error_at(text, text.size(), "expected ] or a further element, found the end");
    end_ = text.size();
    return Status();
  }

  void take(std::string_view text, TextChunk& chunk) override {
    if (format_ == RecordFormat::kJsonLines) return LineScanner::take(text, chunk);
    // RecordScanner's take, not LineScanner's: records are counted here.
    // NOLINTNEXTLINE(bugprone-parent-virtual-call)
    // Not as lines. NOLINTNEXTLINE(bugprone-parent-virtual-call)
    RecordScanner::take(text, chunk);
    state_ = state_at_end_;
  }

 private:
  enum class State { kUndecided, kFirst, kElement, kAfter, kNext, kEnd };

  void decide(std::string_view text) {
    // All before position_ is blank: a text of nothing else is not looked at again as it grows.
    const size_t first = text.find_first_not_of(kJsonWhitespace, position_);
    if (first == text.npos) return;  // Blank lines may go.
    state_ = State::kEnd;
    if (text[first] != '[') return;
    format_ = RecordFormat::kJsonElements;
    position_ = first + 1;
    finish(State::kFirst);
  }

  /// The text may be cut at position_, which `next` follows.
  void finish(State next) {
    state_ = state_at_end_ = next;
    end_ = position_;
  }

  // One byte outside of elements. Elements have to be objects, since a document is one; whatever
  // else stands there is named with its place.
  Status step(std::string_view text) {
    const char found = text[position_];
    if (kJsonWhitespace.find(found) != kJsonWhitespace.npos) {
      ++position_;
      return Status();
    }
    const bool wants_element = state_ == State::kFirst || state_ == State::kNext;
    if (wants_element && found == '{') {
      state_ = State::kElement;
      begin_ = position_;
      depth_ = 0;
      in_string_ = false;
      return Status();
    }
    if (found == ']' && (state_ == State::kFirst || state_ == State::kAfter)) {
      ++position_;
      finish(State::kEnd);
      return Status();
    }
    if (found == ',' && state_ == State::kAfter) {
      ++position_;
      finish(State::kNext);
      return Status();
    }
    const char* const expected = state_ == State::kEnd     ? "nothing after the array"
                                 : state_ == State::kAfter ? ", or ]"
                                                           : "a JSON object as the array's element";
    return error_at(
        text, position_,
        fmt::format("expected {}, found {}", expected, text::printable(text.substr(position_, 1))));
  }

  // Skips up to the element's last }, or to the text's end. Only strings and braces matter here:
  // whether the element is valid JSON is found out by the reader, which names the byte.
  void skip_in_element(std::string_view text) {
    for (; position_ < text.size(); ++position_) {
      if (in_string_) {
        if (!go_to_string_end(text)) return;
        in_string_ = false;
        continue;
      }
      const char found = text[position_];
      if (found == '"') {
        in_string_ = true;
      } else if (found == '{') {
        ++depth_;
      } else if (found == '}' && --depth_ == 0) {
        ++position_;
        add_record(text, begin_, position_ - begin_);
        finish(State::kAfter);
        return;
      }
    }
  }

  /// Moves to the quote that ends the string, or to the text's end where there is none: false. Most
  /// of an element is in strings, which memchr passes over many bytes at a time.
  bool go_to_string_end(std::string_view text) {
    for (;; ++position_) {
      position_ = std::min(text.find('"', position_), text.size());
      if (position_ == text.size()) return false;
      // In a run of backslashes every second one is escaped. The string's first quote ends the run.
      size_t run = position_;
      while (text[run - 1] == '\\') --run;
      if ((position_ - run) % 2 == 0) return true;
    }
  }

  State state_ = State::kUndecided;
  State state_at_end_ = State::kUndecided;
  size_t begin_ = 0;  // of the element
  int64_t depth_ = 0;
  bool in_string_ = false;
};

/// A whole .txt, or its parts between separators.
class TxtScanner : public RecordScanner {
 public:
  explicit TxtScanner(std::string separator)
      : RecordScanner(RecordFormat::kTxt), separator_(std::move(separator)) {}

  Status scan(std::string_view text, bool is_end) override {
    if (!skip_byte_order_mark(text, is_end, is_begin_, begin_)) return Status();
    position_ = std::max(position_, begin_);
    while (!separator_.empty()) {
      const size_t found = text.find(separator_, position_);
      if (found == text.npos) break;
      add(text, found);
      // Several separators in a row make documents that are blank: add() leaves them out.
      begin_ = position_ = end_ = found + separator_.size();
    }
    if (text.size() >= separator_.size()) {
      // A separator may begin in these last bytes and end in the next ones.
      position_ = std::max(position_, text.size() - separator_.size() + 1);
    }
    if (!is_end) return Status();
    add(text, text.size());
    begin_ = end_ = text.size();
    return Status();
  }

  void take(std::string_view text, TextChunk& chunk) override {
    RecordScanner::take(text, chunk);
    begin_ = 0;
  }

 private:
  /// The document [begin_, end), unless it is blank.
  void add(std::string_view text, size_t end) {
    const std::string_view document = text.substr(begin_, end - begin_);
    if (document.find_first_not_of(" \t\r\n\f\v") == document.npos) return;
    add_record(text, begin_, document.size());
  }

  std::string separator_;
  bool is_begin_ = true;
  size_t begin_ = 0;
};

}  // namespace

bool skip_byte_order_mark(std::string_view text, bool is_end, bool& is_begin, size_t& begin) {
  constexpr std::string_view kMark = text::kByteOrderMark;
  if (!is_begin) return true;
  if (!is_end && text.size() < kMark.size() && kMark.starts_with(text)) return false;
  is_begin = false;
  if (text.starts_with(kMark)) begin = kMark.size();
  return true;
}

void RecordScanner::take(std::string_view text, TextChunk& chunk) {
  move_to(text, end_);
  chunk.format = format_;
  chunk.line_count = place_.lines;
  chunk.records.swap(records_);
  records_.clear();
  lines_before_ += std::exchange(place_.lines, 0);
  placed_ = position_ = end_ = 0;
}

/// at: not before placed_.
RecordScanner::Place RecordScanner::place_of(std::string_view text, size_t at) const {
  // LFs are counted once: places only move forward. Looked for one after another, as texts have
  // few.
  const std::string_view passed = text.substr(placed_, at - placed_);
  Place place{place_.lines, place_.column + static_cast<int64_t>(passed.size())};
  for (size_t end = passed.find('\n'); end != passed.npos; end = passed.find('\n', end + 1)) {
    place = {place.lines + 1, static_cast<int64_t>(passed.size() - end - 1)};
  }
  return place;
}

void RecordScanner::move_to(std::string_view text, size_t at) {
  place_ = place_of(text, at);
  placed_ = at;
}

void RecordScanner::add_record(std::string_view text, size_t begin, size_t size) {
  move_to(text, begin);
  records_.push_back({begin, size, place_.lines, place_.column});
}

Status RecordScanner::error_at(std::string_view text, size_t at, const std::string& what) const {
  const Place place = place_of(text, at);
  return make_error(StatusCode::kCorruption, "line {}, byte {}: {}",
                    lines_before_ + place.lines + 1, place.column + 1, what);
}

std::unique_ptr<RecordScanner> make_scanner(InputFormat format, const InputOptions& options,
                                            const std::vector<std::string>& keys) {
  if (format == InputFormat::kCsv) return std::make_unique<CsvScanner>(options, keys);
  if (format != InputFormat::kTxt) return std::make_unique<JsonScanner>();
  if (options.txt_document == TxtDocument::kLine) {
    return std::make_unique<LineScanner>(RecordFormat::kTxtLines);
  }
  const bool is_separated = options.txt_document == TxtDocument::kSeparated;
  return std::make_unique<TxtScanner>(is_separated ? options.txt_separator : std::string());
}

}  // namespace meg::preprocess
