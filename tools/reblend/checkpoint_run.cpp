#include "tools/reblend/checkpoint_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <variant>

#include "libmeg/checkpoint/dialects/mp_rank/run_arguments.h"
#include "libmeg/checkpoint/inspect/checkpoint_summary.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/megatron/python_value.h"
#include "libmeg/text/printable.h"
#include "tools/common/flag_groups/data_flags.h"
#include "tools/common/found_instead.h"

namespace meg::tools {
namespace {

using megatron::ArgumentRow;
using megatron::Effect;
using megatron::FieldValue;

constexpr size_t kShown = 200;  // bytes of a value in a message

/// Fields in which the rest of the run may differ from its beginning: they do not change which
/// samples there are.
constexpr std::string_view kFree[] = {"micro_batch_size",
                                      "num_dataset_builder_threads",
                                      "dataloader_defer_npy_index_mmap",
                                      "reset_position_ids",
                                      "reset_attention_mask",
                                      "eod_mask_loss",
                                      "allow_ambiguous_pad_tokens",
                                      "create_attention_mask_in_dataloader"};

/// Fields that only say where files are: the run may have moved.
constexpr std::string_view kPlaces[] = {"data_cache_path", "object_storage_cache_path"};

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

std::string shown(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text::printable(*text, kShown);
  return text::printable_name(megatron::field_text(value), kShown);
}

Result<checkpoint::TrainingArgs> args_of(const checkpoint::CheckpointSummary& summary) {
  if (!summary.args.has_value()) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected the args of a run, found none: give the run's flags and "
                      "`consumed_samples`",
                      summary.folder.folder);
  }
  const auto [file, id] = *summary.args;
  return checkpoint::read_training_args(*summary.files[static_cast<size_t>(file)].file, id);
}

class RunTaker {
 public:
  RunTaker(const checkpoint::TrainingArgs& recorded, megatron::ArgumentValues& args,
           CheckpointRun& run)
      : recorded_(recorded), args_(args), run_(run) {}

  Status take() {
    const std::vector<std::string> fields =
        megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
          megatron::FieldReader reader(lookup);
          DataFlags ignored;
          read_data_args(reader, ignored);
        });
    // Megatron sets train_iters itself where samples are what is counted.
    const bool counts_samples = checkpoint::run_field(recorded_, "train_samples").has_value();
    std::vector<std::string_view> seen;
    for (const ArgumentRow& row : megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
      if (is_among(seen, row.dest)) continue;
      seen.push_back(row.dest);
      if (counts_samples && row.dest == "train_iters" && !args_.given("train_iters")) continue;
      if (is_among(fields, row.dest)) {
        MEG_RETURN_IF_ERROR(take(row));
      } else if (row.effect == Effect::kData) {
        MEG_RETURN_IF_ERROR(check_unused(row));
      }
    }
    return {};
  }

 private:
  Status take(const ArgumentRow& row) {
    const std::optional<FieldValue> found = checkpoint::run_argument(recorded_, row);
    if (!args_.given(row.dest)) {
      if (found) args_.set(row.dest, *found);
      return {};
    }
    const FieldValue given = args_.field(row.dest).value_or(FieldValue());
    const bool is_free = row.effect == Effect::kParallel || is_among(kFree, row.dest);
    if (is_free || (found && megatron::same_field(*found, given))) return {};
    std::string text = fmt::format("`{}`: expected {} as in the args of {}, found {}", row.dest,
                                   found ? shown(*found) : "none", run_.folder, shown(given));
    if (is_among(kPlaces, row.dest) || row.effect == Effect::kTokenizer) {
      run_.notes.push_back(std::move(text));
      return {};
    }
    return {StatusCode::kInvalidArgument,
            text + ": without `load` flags alone say what the run has read"};
  }

  /// What changes a run's samples in a way that libmeg does not know.
  Status check_unused(const ArgumentRow& row) const {
    const std::optional<FieldValue> found = checkpoint::run_argument(recorded_, row);
    if (!found) return {};
    const auto usual = megatron::parse_python_value(row.default_value);
    const auto* const flag = std::get_if<bool>(&*found);
    bool is_usual = (usual && megatron::same_field(*usual, *found)) ||
                    (flag != nullptr && !*flag && row.stored == "True");
    // Megatron sets it to seq_length.
    if (const auto length = checkpoint::run_field(recorded_, "seq_length");
        length && row.dest == "encoder_seq_length") {
      is_usual = megatron::same_field(*length, *found);
    }
    if (is_usual) return {};
    return make_error(StatusCode::kUnsupported, "args of {}: `{}` {}: not supported yet",
                      run_.folder, row.dest, shown(*found));
  }

  const checkpoint::TrainingArgs& recorded_;
  megatron::ArgumentValues& args_;
  CheckpointRun& run_;
};

}  // namespace

Result<CheckpointRun> take_run_of_checkpoint(const std::string& load,
                                             std::optional<int64_t> iteration,
                                             megatron::ArgumentValues& args) {
  const auto folder = checkpoint::find_checkpoint(load, iteration);
  if (!folder.has_value()) return no_checkpoint(load, folder.error());
  MEG_ASSIGN_OR_RETURN(const auto summary, checkpoint::summarize_checkpoint(*folder));
  MEG_ASSIGN_OR_RETURN(const checkpoint::TrainingArgs recorded, args_of(summary));
  CheckpointRun run{.folder = summary.folder.folder,
                    .iteration = summary.iteration,
                    .consumed_samples = {},
                    .notes = {}};
  const auto consumed = checkpoint::run_field(recorded, "consumed_train_samples");
  const int64_t* const samples = consumed ? std::get_if<int64_t>(&*consumed) : nullptr;
  // Before the first step it is 0, and in args that some other program has written, too.
  if (samples != nullptr && (*samples > 0 || run.iteration.value_or(0) == 0)) {
    run.consumed_samples = *samples;
  }
  MEG_RETURN_IF_ERROR(RunTaker(recorded, args, run).take());
  return run;
}

}  // namespace meg::tools
