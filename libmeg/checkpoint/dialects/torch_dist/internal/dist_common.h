#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"

namespace meg::checkpoint {

/// The content of common.pt, from which parts of the rank files are composed.
class CommonState {
 public:
  explicit CommonState(std::shared_ptr<const TorchFile> file) : file_(std::move(file)) {
    if (file_ != nullptr) args_ = file_->graph().find(file_->root(), "args");
  }

  /// nullptr if the folder has none.
  const std::shared_ptr<const TorchFile>& file() const { return file_; }

  std::optional<PickleId> top(std::string_view key) const {
    return file_ == nullptr ? std::nullopt : file_->graph().find(file_->root(), key);
  }

  std::optional<int64_t> size(std::string_view name) const {
    return args_.has_value() ? int_arg(file_->graph(), *args_, name) : std::nullopt;
  }

  /// A field of args; nullopt if there is none.
  std::optional<megatron::FieldValue> field(std::string_view name) const {
    const auto id = args_.has_value() ? find_arg(file_->graph(), *args_, name) : std::nullopt;
    return id.has_value() ? std::optional(arg_field(file_->graph(), *id)) : std::nullopt;
  }

  /// Whether a field of args is set: None, False and missing fields are not.
  bool says(std::string_view name) const {
    const auto id = args_.has_value() ? find_arg(file_->graph(), *args_, name) : std::nullopt;
    if (!id.has_value() || file_->graph().node(*id).kind == PickleKind::kNone) return false;
    return file_->graph().as_bool(*id).value_or(true);
  }

  std::string text(std::string_view name) const {
    const auto id = args_.has_value() ? find_arg(file_->graph(), *args_, name) : std::nullopt;
    return std::string(id.has_value() ? file_->graph().as_string(*id).value_or("") : "");
  }

  FlatRun flat_run() const {
    return file_ == nullptr ? FlatRun() : FlatRun::of(file_->graph(), args_);
  }

  std::optional<int64_t> iteration() const {
    const std::optional<PickleId> id = top("iteration");
    return id.has_value() ? file_->graph().as_int(*id) : std::nullopt;
  }

  double version() const {
    const std::optional<PickleId> id = top("checkpoint_version");
    // Megatron has saved a version for as long as it has written such folders.
    return id.has_value() ? file_->graph().as_number(*id).value_or(3.0) : 3.0;
  }

 private:
  std::shared_ptr<const TorchFile> file_;
  std::optional<PickleId> args_;
};

}  // namespace meg::checkpoint
