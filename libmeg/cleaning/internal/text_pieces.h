#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/exact_duplicates.h"

namespace meg::cleaning {

/// A line or a paragraph of a text.
struct TextPiece {
  size_t begin = 0, end = 0;  ///< Without what separates it from others.
  TextDigest digest;
  bool is_blank = false;  ///< Of whitespace alone: it always stays and has no digest.
  bool is_removed = false;
};

/// Appends the pieces of a text: lines end with LF, between paragraphs there are two LF or more.
void split_text(std::string_view text, DuplicateUnit unit, std::vector<TextPiece>& pieces);

/// The bytes that append_kept_pieces() appends.
int64_t kept_piece_bytes(std::span<const TextPiece> pieces);

/// Appends those pieces of a text that are not removed, with what stands before each but the first.
void append_kept_pieces(std::string_view text, std::span<const TextPiece> pieces, std::string& out);

/// Puts other texts and ids into documents that are lines of an output already.
class LineEditor {
 public:
  explicit LineEditor(const CleanOptions& options) : options_(options) {}

  /// The text in a line, valid until the next call.
  std::string_view text_of(std::string_view line);

  /// Appends the line that text_of() was given, with another text.
  void append_line(std::string_view text, std::string& out) const;

  /// Appends a line of JSON with the id of the document of this number, from 1.
  void append_with_id(std::string_view line, int64_t number, std::string& out);

 private:
  /// Empty where the line has no such key.
  std::string_view find_value(std::string_view line, std::string_view key);

  const CleanOptions& options_;
  std::string line_, buffer_;
  size_t size_ = 0;             // of the line, before its padding
  size_t begin_ = 0, end_ = 0;  // of the value in the line; where it has none, of its place
  bool is_json_ = true;
};

}  // namespace meg::cleaning
