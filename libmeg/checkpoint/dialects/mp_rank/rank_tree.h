#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"

namespace meg::checkpoint {

/// Builds a rank's torch file: its tree of Megatron's values.
class RankTree {
 public:
  using Entry = std::pair<std::string_view, PickleId>;

  TorchFileContent& content() { return content_; }

  const TorchFileContent& content() const { return content_; }

  PickleGraph& graph() { return content_.graph(); }

  /// A string. Equal texts give the same node, because Python interns its keys.
  PickleId text(std::string_view text);

  /// A plain dict.
  PickleId dict(std::initializer_list<Entry> entries);

  PickleId arg(const ArgValue& value);

  /// argparse.Namespace
  PickleId args(const TrainingArgs& args);

 private:
  TorchFileContent content_;
  std::map<std::string, PickleId, std::less<>> texts_;
};

}  // namespace meg::checkpoint
