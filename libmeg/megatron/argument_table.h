#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/megatron/megatron_version.h"

namespace meg::megatron {

/// What changes if an argument has a different value. kNone: no visible difference in numbers,
/// bytes or which file is read; ArgumentRow::reason says why.
enum class Effect : uint8_t {
  kModel,       ///< What the model computes, or the shape and meaning of its parameters.
  kData,        ///< Which samples there are, and in which order.
  kTokenizer,   ///< Which tokens a text becomes, and the text of tokens.
  kSchedule,    ///< Learning rate, weight decay, batch size and length of the run over its steps.
  kOptimizer,   ///< What a step makes of gradients: clipping, moments, loss scale, precision.
  kCheckpoint,  ///< What is loaded or saved, where, in which format.
  kParallel,    ///< How many ranks there are and what each of them holds.
  kLog,         ///< What is printed or logged, and when.
  kNone,
};

/// How many words follow the flag: none, one, or all up to the next flag (possibly none).
enum class ArgumentArity : uint8_t { kSwitch, kValue, kList };

/// The type of the words of a value.
enum class ArgumentType : uint8_t { kBool, kInteger, kReal, kText };

/// The command line that has the argument.
enum class ArgumentFamily : uint8_t {
  kTraining,        ///< megatron/training/arguments.py: every program that runs a model.
  kPreprocess,      ///< tools/preprocess_data.py
  kConvert,         ///< tools/checkpoint_util.py, tools/checkpoint/convert.py, loaders and savers.
  kTasks,           ///< tasks/main.py, beside kTraining.
  kTextGeneration,  ///< Text-generation servers and generate_samples_gpt.py, beside kTraining.
  kMerge,           ///< tools/merge_datasets.py
};

inline constexpr ArgumentFamily kArgumentFamilies[] = {
    ArgumentFamily::kTraining, ArgumentFamily::kPreprocess,     ArgumentFamily::kConvert,
    ArgumentFamily::kTasks,    ArgumentFamily::kTextGeneration, ArgumentFamily::kMerge};

/// Everything that libmeg knows about one flag of Megatron-LM's command lines. Python values are
/// stored as Python writes them: `None`, `True`, `0.1`, `'adam'`, `['a', 'b']`.
struct ArgumentRow {
  ArgumentFamily family;
  std::string_view flag;  ///< As the newest revision that has it spells it: "--num-layers".
  /// Its other spellings, separated by spaces; names in older revisions as (--name).
  std::string_view other_names;
  std::string_view dest;  ///< Its field in args, which checkpoints keep: "num_layers".
  /// Its fields in args of older revisions, separated by spaces; a field with the opposite meaning
  /// begins with `!`. A field that is also a row's dest means that row.
  std::string_view older_dests;
  ArgumentArity arity;
  ArgumentType type;
  std::string_view default_value;  ///< Of the field where no flag sets it, in libmeg's programs.
  std::string_view stored;         ///< Switches: what the field becomes, such as "True".
  std::string_view choices;        ///< The only allowed words, parted by spaces; empty: any.
  /// The words that libmeg supports, separated by spaces; empty: all of `choices`. They mean what
  /// libmeg does anyway, so a program that does not read the flag accepts them; others are refused.
  std::string_view supported;
  std::string_view since;  ///< The oldest known revision that has it, as MegatronVersion's name.
  std::string_view until;  ///< The newest one that has it.
  Effect effect;
  std::string_view reason;   ///< For kNone and some kLog: why nothing differs ("profiling").
  std::string_view metavar;  ///< What --help calls the value; empty where no program reads it.
  std::string_view range;    ///< Numbers: the allowed ones, "1..", "0..1", "..0"; empty: any.
  std::string_view help;     ///< One line for --help; empty where no program reads it.
  /// The oldest and the newest revision that take the flag without using it in their core GPT
  /// models, separated by a space; empty: all use it.
  std::string_view unused = {};
};

/// The rows of a family, in the order of the newest revision, followed by flags that it no longer
/// has.
std::span<const ArgumentRow> argument_rows(ArgumentFamily family);

/// The first row of a family with this dest; nullptr if there is none.
const ArgumentRow* find_argument(ArgumentFamily family, std::string_view dest);

/// The words of a cell that holds several, such as other_names. Valid as long as the cell.
std::vector<std::string_view> words_of(std::string_view cell);

/// Whether a revision of Megatron has the argument.
bool is_of_revision(const ArgumentRow& row, const MegatronVersion& version);

/// Whether the core GPT models of a revision are the same whatever the argument is.
bool is_unused_by(const ArgumentRow& row, const MegatronVersion& version);

}  // namespace meg::megatron
