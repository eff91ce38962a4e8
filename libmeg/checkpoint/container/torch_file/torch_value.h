#pragma once

#include <memory>
#include <string>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/state/opaque.h"

namespace meg::checkpoint {

/// A value of a torch file with the tensors in it.
class TorchValue final : public Opaque {
 public:
  TorchValue(std::shared_ptr<const TorchFile> file, PickleId node)
      : file_(std::move(file)), node_(node) {}

  const std::shared_ptr<const TorchFile>& file() const { return file_; }

  PickleId node() const { return node_; }

  std::string origin() const override { return file_->path(); }

  std::string describe(size_t limit) const override {
    return file_->graph().describe(node_, limit);
  }

 private:
  std::shared_ptr<const TorchFile> file_;
  PickleId node_;
};

}  // namespace meg::checkpoint
