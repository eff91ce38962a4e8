#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_ranks.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/huggingface/huggingface_checkpoint.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/chunk_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/state_dict_tree.h"
#include "libmeg/checkpoint/dialects/mp_rank/rank_tree.h"

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

constexpr double kCheckpointVersion = 3.0;
constexpr model::NameFamily kNames = model::NameFamily::kMcoreLocal;

/// The model's state dict. sources: receives that of each storage.
Result<PickleId> add_model(const HuggingFaceCheckpoint& checkpoint, RankTree* tree,
                           std::vector<Source>* sources) {
  MEG_ASSIGN_OR_RETURN(const model::ParameterTable table, model::ParameterTable::gpt());
  MEG_ASSIGN_OR_RETURN(const std::vector<model::RankParameter> parameters,
                       model::rank_parameters(checkpoint.model, {}, 0, kNames, table));
  std::map<std::string_view, Source> by_name;
  for (const HuggingFaceParameter& parameter : checkpoint.parameters) {
    by_name[parameter.name] = parameter.source;
  }
  StateDictTree model(kNames);
  MEG_ASSIGN_OR_RETURN(const model::PipelineLayout layout,
                       model::PipelineLayout::create(checkpoint.model.num_layers, {}));
  for (const ChunkEntry& entry : chunk_entries(parameters, layout, 0, 0, kNames, table)) {
    if (!entry.parameter.has_value()) {
      model.add(entry.name, tree->graph().add_none());
      continue;
    }
    const model::RankParameter& parameter = parameters[*entry.parameter];
    const Source& source = by_name.at(parameter.name);
    const int storage =
        tree->content().add_storage(source->dtype(), static_cast<uint64_t>(source->bytes()));
    model.add(entry.name, tree->content().add_tensor(storage, parameter.shape));
    sources->push_back(source);
  }
  return model.write(&tree->graph(), tree->content().global("collections", "OrderedDict"),
                     [tree](std::string_view text) { return tree->text(text); });
}

}  // namespace

Result<RankFiles> open_huggingface(const CheckpointFolder& folder,
                                   const megatron::FieldLookup& fallback) {
  MEG_ASSIGN_OR_RETURN(HuggingFaceCheckpoint checkpoint,
                       open_huggingface_checkpoint(folder.folder));
  // config.json has no such key; it matters if the vocabulary is padded again.
  if (const auto rows = fallback ? fallback("make_vocab_size_divisible_by") : std::nullopt) {
    checkpoint.model.make_vocab_size_divisible_by = std::get<int64_t>(*rows);
  }
  RankTree tree;
  std::vector<Source> sources;
  MEG_ASSIGN_OR_RETURN(const PickleId model, add_model(checkpoint, &tree, &sources));
  tree.content().root =
      tree.dict({{"args", tree.args(huggingface_args(checkpoint))},
                 {"checkpoint_version", tree.graph().add_float(kCheckpointVersion)},
                 {"iteration", tree.graph().add_int(0)},
                 {"model", model}});
  // One composed file of one rank: whatever reads rank files then reads this dialect, too.
  MEG_ASSIGN_OR_RETURN(TorchFile file,
                       TorchFile::compose(folder.folder, tree.content(), std::move(sources),
                                          checkpoint.weight_file_bytes));
  return RankFiles{.version = kCheckpointVersion,
                   .iteration = std::nullopt,
                   .files = {{.tensor_rank = 0,
                              .pipeline_rank = 0,
                              .folder_name = rank_folder_name(0, 0, 1),
                              .file = std::make_shared<const TorchFile>(std::move(file))}},
                   .notes = std::move(checkpoint.notes)};
}

}  // namespace meg::checkpoint
