// What a tokenizer is, what it makes of texts, and how two of them differ. New; Megatron-LM has no
// such program.

#include "tools/tokenizer_inspect/tokenizer_inspect.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/model/vocab_padding.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/inspect/python_check.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/flag_groups/input_flags.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

constexpr int32_t kMostCompared = 1 << 26;  // ids

/// The flags of the other tokenizer; what they do not say is as the first one's flags have it.
struct OtherFlags {
  std::optional<std::string> type, model, vocab_file, merge_file;

  bool given() const { return type || model || vocab_file || merge_file; }
};

/// What the command line says.
struct Arguments {
  megatron::ArgumentValues args;
  std::optional<std::string> megatron_version, text;
  InputFlags input;
  OtherFlags other;
  bool compare = false, compare_with_python = false, json = false;
  int64_t workers = available_processors();

  // What finish() makes of them.
  preprocess::ReadTextsOptions texts;
  tokenizer::TokenizerOptions tokenizer, other_tokenizer;
  int64_t make_vocab_size_divisible_by = 128;
  int64_t tensor_model_parallel_size = 1;
};

void read_args(megatron::FieldReader& args, Arguments& arguments) {
  args.take("make_vocab_size_divisible_by", arguments.make_vocab_size_divisible_by);
  args.take("tensor_model_parallel_size", arguments.tensor_model_parallel_size);
  arguments.tokenizer.take_fields(args);
}

ArgumentScope scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        Arguments arguments;
        read_args(args, arguments);
      });
  return {
      .reads = std::move(fields), .required = {"tokenizer_type"}, .idle = {}, .idle_fields = {}};
}

void declare(Flags& flags, Arguments& arguments) {
  flags.group("What is shown");
  flags.value("--text", &arguments.text, "TEXT", "show the tokens of this text");
  flags.toggle("--compare", &arguments.compare,
               "compare vocabularies, and the ids of --text or --input, with the other tokenizer; "
               "exit code 1 if they differ");
  flags.value("--other-tokenizer-type", &arguments.other.type, "TYPE",
              "type of the other tokenizer (default for each of these flags: the value of the "
              "first tokenizer)");
  flags.value("--other-tokenizer-model", &arguments.other.model, "FILE", "its --tokenizer-model");
  flags.value("--other-vocab-file", &arguments.other.vocab_file, "FILE", "its --vocab-file");
  flags.value("--other-merge-file", &arguments.other.merge_file, "FILE", "its --merge-file");
  flags.toggle("--compare-with-python", &arguments.compare_with_python,
               "print a command that compares the ids of --text with those of the Python package "
               "behind the tokenizer");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.value("--megatron-version", &arguments.megatron_version, "REVISION",
              "revision of Megatron-LM to follow where revisions differ, such as v2.6");
  declare_input_flags(flags, arguments.input);
  flags.list("--json-keys", &arguments.texts.json_keys, "KEY...", "keys to read texts from");
  flags.value("--workers", &arguments.workers, "N", "threads that read --input").range(1, 4096);
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kTraining), scope(),
                  &arguments.args);
}

Status check_modes(const Arguments& arguments) {
  const auto wrong = [](std::string_view message) {
    return make_error(StatusCode::kInvalidArgument, "{}", message);
  };
  const bool has_input = !arguments.input.inputs.empty();
  if (arguments.text && has_input) return wrong("--text: cannot be combined with --input");
  if (arguments.compare != arguments.other.given()) {
    return wrong(
        "--compare: expected it together with --other-tokenizer-type, "
        "--other-tokenizer-model, --other-vocab-file or --other-merge-file");
  }
  if (arguments.compare_with_python && (!arguments.text || arguments.compare)) {
    return wrong("--compare-with-python: expected --text and no --compare");
  }
  if (!arguments.text) return {};
  const size_t invalid = text::find_invalid_utf8(*arguments.text);
  if (invalid == arguments.text->npos) return {};
  return make_error(StatusCode::kInvalidArgument, "--text: byte {}: expected UTF-8, found {}",
                    invalid + 1, text::printable(arguments.text->substr(invalid, 1)));
}

Status finish(Arguments& arguments) {
  MEG_RETURN_IF_ERROR(check_modes(arguments));
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  read_args(args, arguments);
  MEG_RETURN_IF_ERROR(args.status());
  MEG_RETURN_IF_ERROR(finish_input_flags(arguments.input, arguments.texts));
  if (arguments.megatron_version) {
    MEG_ASSIGN_OR_RETURN(arguments.tokenizer.version,
                         megatron::parse_megatron_version(*arguments.megatron_version));
  }
  // A copy first, so that two tokenizers of one type need the flags alone in which they differ.
  tokenizer::TokenizerOptions& other = arguments.other_tokenizer = arguments.tokenizer;
  if (arguments.other.type) other.tokenizer_type = *arguments.other.type;
  if (arguments.other.model) other.tokenizer_model = *arguments.other.model;
  if (arguments.other.vocab_file) other.vocab_file = *arguments.other.vocab_file;
  if (arguments.other.merge_file) other.merge_file = *arguments.other.merge_file;
  return {};
}

/// The tokens of --text.
Status show_text(const Arguments& arguments, const tokenizer::Tokenizer& tokenizer,
                 Inspection& inspection) {
  MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.encode(*arguments.text));
  inspection.tokens.emplace();
  for (const int32_t id : ids) {
    inspection.tokens->push_back({id, std::string(tokenizer.token_bytes(id).value_or(""))});
  }
  if (!arguments.compare_with_python) return {};
  MEG_ASSIGN_OR_RETURN(inspection.python_check,
                       tokenizer::python_check(arguments.tokenizer, *arguments.text, ids));
  return {};
}

Status compare(const tokenizer::Tokenizer& tokenizer, const tokenizer::Tokenizer& other,
               Inspection& inspection) {
  for (const tokenizer::Tokenizer* const one : {&tokenizer, &other}) {
    // Every id is requested, and files may claim ids up to 2^31.
    if (one->max_id() <= kMostCompared) continue;
    return make_error(StatusCode::kUnsupported, "--compare: expected ids up to {}, found {}",
                      kMostCompared, one->max_id());
  }
  inspection.differences = tokenizer::compare_vocabularies(tokenizer, other);
  return {};
}

Result<Inspection> inspect(const Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       tokenizer::open_tokenizer(arguments.tokenizer));
  for (const std::string& text : tokenizer->warnings()) warning(text);
  Inspection inspection;
  inspection.type = arguments.tokenizer.tokenizer_type;
  inspection.vocab_size = tokenizer->vocab_size();
  MEG_ASSIGN_OR_RETURN(
      inspection.padded_vocab_size,
      model::padded_vocab_size(inspection.vocab_size, arguments.make_vocab_size_divisible_by,
                               arguments.tensor_model_parallel_size));
  MEG_ASSIGN_OR_RETURN(inspection.description, tokenizer::describe_tokenizer(arguments.tokenizer));
  inspection.special_tokens = tokenizer->special_tokens();
  inspection.eod = tokenizer->eod();
  inspection.bos = tokenizer->bos();
  inspection.pad = tokenizer->pad();
  std::unique_ptr<tokenizer::Tokenizer> other;
  if (arguments.compare) {
    MEG_ASSIGN_OR_RETURN(other, tokenizer::open_tokenizer(arguments.other_tokenizer));
    MEG_RETURN_IF_ERROR(compare(*tokenizer, *other, inspection));
  }
  if (arguments.text) {
    MEG_RETURN_IF_ERROR(show_text(arguments, *tokenizer, inspection));
    MEG_ASSIGN_OR_RETURN(inspection.statistics,
                         text_statistics(*arguments.text, *tokenizer, other.get()));
  } else if (!arguments.texts.inputs.empty()) {
    MEG_ASSIGN_OR_RETURN(inspection.statistics,
                         read_statistics(arguments.texts, static_cast<int>(arguments.workers),
                                         *tokenizer, other.get()));
  }
  return inspection;
}

bool differs(const Inspection& inspection) {
  if (!inspection.differences) return false;
  const tokenizer::VocabularyDifferences& found = *inspection.differences;
  const bool of_texts = inspection.statistics && inspection.statistics->difference;
  return of_texts || !found.only_here.empty() || !found.only_there.empty() || !found.moved.empty();
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  Flags flags("tokenizer_inspect",
              "describes a tokenizer, shows the tokens of texts, and compares two tokenizers.");
  flags.examples(
      {"tokenizer_inspect --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer",
       "tokenizer_inspect --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer --text "
       "'Hello, world!'",
       "tokenizer_inspect --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer "
       "--compare --other-tokenizer-model other-tokenizer --input corpus.jsonl"});
  declare(flags, arguments);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  if (const Status status = finish(arguments); !status.ok()) return fail_by_code(status);
  stop_at_signals();
  const Result<Inspection> inspection = inspect(arguments);
  if (!inspection.has_value()) return fail_by_code(inspection.error());
  if (arguments.json) {
    print_inspection_json(*inspection);
  } else {
    print_inspection(*inspection,
                     ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr);
  }
  return differs(*inspection) ? 1 : 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
