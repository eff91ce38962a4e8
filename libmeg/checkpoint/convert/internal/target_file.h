#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/convert/internal/transfer_builder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/transfer/torch_transfer.h"

namespace meg::checkpoint {

/// Builds one file of the target: its tree, and for each of its storages the transfer that will
/// fill it.
class TargetFile {
 public:
  /// Everything referred to must outlive this object.
  TargetFile(const MegatronCheckpoint& checkpoint, TransferBuilder* transfers,
             const RankPlace& place)
      : checkpoint_(checkpoint), transfers_(transfers), place_(place) {}

  TargetFile(const TargetFile&) = delete;
  TargetFile& operator=(const TargetFile&) = delete;

  const RankPlace& place() const { return place_; }

  TorchFileContent& content() { return content_; }

  PickleGraph& graph() { return content_.graph(); }

  /// The finished file, for a plan, at `path` in the iteration's folder; nothing may be added
  /// afterwards.
  Result<TransferTargetFile> finish(std::string path);

  /// A string. Equal texts give the same node, because Python interns its keys.
  PickleId text(std::string_view text);

  PickleId none();

  /// The class collections.OrderedDict.
  PickleId ordered_dict();

  /// Adds this rank's part of a tensor. shape: that of the part.
  PickleId add_tensor(const LogicalParameter& parameter, const LogicalTensor& tensor,
                      const std::vector<int64_t>& shape);

  /// Copies part of a source file's tree, with the storages that its tensors are views of.
  /// kUnsupported if it names a storage that the file does not have.
  Result<PickleId> carry(int source_file, PickleId id);

  /// The same for a value that came with a parameter.
  Result<PickleId> carry(const Opaque& value);

  /// Makes later calls of carry() return `replacement` for this node of a source file.
  void replace(int source_file, PickleId id, PickleId replacement);

 private:
  /// What has been copied from one source file so far.
  struct Carrier {
    explicit Carrier(const PickleGraph& from, PickleGraph& to) : copier(from, to) {}

    PickleCopier copier;
    std::unordered_set<PickleId> visited;
    std::map<int, PickleId> storages;  // source storage: the node that names its copy
  };

  using SourceFile = std::shared_ptr<const TorchFile>;

  const SourceFile& source(int source_file) const;
  Carrier& carrier(const SourceFile& file);
  Result<PickleId> carry(const SourceFile& file, PickleId id);
  Status carry_storages(const SourceFile& file, PickleId root, Carrier* carrier);
  void set_sink(int storage, int sink);

  const MegatronCheckpoint& checkpoint_;
  TransferBuilder* transfers_;
  RankPlace place_;
  TorchFileContent content_;
  std::vector<int> sinks_;  // of each storage
  std::map<std::string, PickleId, std::less<>> texts_;
  std::map<const TorchFile*, std::unique_ptr<Carrier>> carriers_;
  std::optional<PickleId> ordered_dict_;
};

}  // namespace meg::checkpoint
