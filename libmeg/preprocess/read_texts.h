#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/preprocess/sources/input_options.h"

namespace meg::preprocess {

struct ReadTextsSummary {
  int64_t documents = 0;
  int64_t input_bytes = 0;  ///< Read.
  int64_t text_bytes = 0;   ///< UTF-8 of the texts.
  int64_t skipped_lines = 0;
  std::vector<std::string> skipped_examples;  ///< Messages of the first skipped lines.
  std::vector<std::string> sources;           ///< Names of the inputs, by their numbers in places.
  std::vector<std::string> warnings;          ///< What the user should look at; mostly empty.
};

/// Where a part of the input ends.
struct ReadPosition {
  int64_t input = 0;   ///< Its number among the sources.
  int64_t offset = 0;  ///< In its content.
  int64_t lines = 0;   ///< Of that input, before there.
  /// Of all that was read up to there, without sources and warnings.
  ReadTextsSummary summary;
};

/// Which texts read_texts reads; as PreprocessOptions.
struct ReadTextsOptions {
  std::vector<std::string> inputs;
  InputOptions input;
  std::optional<int64_t> max_documents;  ///< One visitor gets them all, in order.
  /// None, with InputFormat::kJson: visitors look at the objects themselves.
  std::vector<std::string> json_keys = {"text"};
  OnError on_error = OnError::kFail;
  size_t chunk_bytes = size_t{1} << 20;
  /// Visitors end parts in the order of the input, and say when it is enough: TextVisitor::settle.
  /// Not with max_documents.
  bool in_order = false;
  /// With in_order: where the first part begins, as an earlier call with the same other options
  /// told TextVisitor::write(). kCorruption where no part ended there.
  ReadPosition start_at;
};

/// Takes texts one after another; used by one thread at a time.
class TextVisitor {
 public:
  virtual ~TextVisitor() = default;

  /// Called before the texts of each part of the input, all of which this visitor gets, in order.
  /// number: counts up from 0 in the order of the input.
  virtual void begin_part(int64_t /*number*/) {}

  /// Called before the texts of each document. json: the object that holds it, with
  /// text::kTextPadding readable bytes after it, valid until the next document; empty in other
  /// formats. has_list: a key has not one text, but a list. place: where it was read. An error,
  /// which begins with `byte N` of the document, makes it a bad line.
  virtual Status begin_document(std::string_view /*json*/, bool /*has_list*/,
                                const dataset::DocumentPlace& /*place*/) {
    return {};
  }

  /// text: valid UTF-8 with text::kTextPadding readable bytes after it, valid until the next
  /// document. An error ends the work.
  virtual Status visit(std::string_view text) = 0;

  // With ReadTextsOptions::in_order a part ends in these steps.

  /// Called when the parts before it are settled, one visitor at a time. False: it is enough, no
  /// later part counts, nor does a bad line after this part's documents.
  virtual Result<bool> settle() { return true; }

  /// Called then, by all visitors at once.
  virtual Status pack() { return {}; }

  /// Called when the parts before it are written, one visitor at a time. end: of the part; the
  /// summary counts the parts up to it.
  virtual Status write(const ReadPosition& /*end*/) { return {}; }

  /// Called at last, by all visitors at once.
  virtual Status end_part() { return {}; }
};

/// Hands every text of the inputs to one of the visitors, each of which has a thread of its own.
/// Which gets which is open; a bad line that ends the work is the first one of the input. progress:
/// as preprocess(). Errors: kInvalidArgument for options, lines (`FILE: line L, byte B: ...`),
/// TextSource::open's, the visitors', kCancelled, kResourceExhausted without memory.
Result<ReadTextsSummary> read_texts(const ReadTextsOptions& options,
                                    std::span<TextVisitor* const> visitors,
                                    const ProgressCallback& progress);

}  // namespace meg::preprocess
