#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::test {

/// A node of a file's tree.
struct TreeNode {
  const checkpoint::TorchFile* file = nullptr;
  checkpoint::PickleId id = 0;

  const checkpoint::PickleGraph& graph() const { return file->graph(); }

  /// The value under a path of dict keys and list indices, "optimizer/optimizer/state/0"; a node
  /// without file where there is none. Keys that hold `/` cannot be named.
  TreeNode at(const std::string& path) const;

  /// An attribute of an object (argparse.Namespace).
  TreeNode attribute(const std::string& name) const;

  explicit operator bool() const { return file != nullptr; }

  /// The bytes of a tensor; empty where this is none.
  std::vector<std::byte> bytes() const;

  /// String keys of a dict, in order.
  std::vector<std::string> keys() const;
};

inline TreeNode root_of(const checkpoint::TorchFile& file) { return {&file, file.root()}; }

/// Where two trees differ in kinds, values, keys or their order, or in tensors (dtype, shape, each
/// byte): "model/encoder/...: ..."; empty where they are the same. What an OrderedDict carries
/// beside its keys (`_metadata`) is left out.
std::vector<std::string> differences(TreeNode a, TreeNode b);

}  // namespace meg::test
