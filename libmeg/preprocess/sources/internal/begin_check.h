#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/status.h"
#include "libmeg/preprocess/sources/input_options.h"

namespace meg::preprocess {

/// Judges the beginning of an input's content, once enough of it is there.
class BeginCheck {
 public:
  /// format: of the input, not kAuto. name: for errors.
  BeginCheck(std::string name, InputFormat format, const InputOptions& options)
      : name_(std::move(name)),
        may_be_columns_(options.format == InputFormat::kAuto),
        may_be_json_(format == InputFormat::kTxt && may_be_columns_) {}

  /// The content comes from a pipe or is decompressed: kind_of() has not seen it.
  void expect_foreign() { may_be_foreign_ = true; }

  /// text: the content from its first byte on; later calls look at no more than they need.
  /// kUnsupported and kInvalidArgument say what it holds instead of documents.
  Status check(std::string_view text);

  /// Whether no further text can be an error.
  bool is_done() const { return !may_be_foreign_ && !may_be_json_; }

 private:
  Status check_stream(std::string_view text) const;

  std::string name_;
  bool may_be_columns_;          // by its content, where no format is given
  bool may_be_json_;             // plain text by its name, whose first byte has not come yet
  bool may_be_foreign_ = false;  // a stream, whose first bytes have not come yet
};

}  // namespace meg::preprocess
