// Shows what a checkpoint holds, from metadata alone unless asked for statistics.
// Mirrors Megatron-LM tools/checkpoint/checkpoint_inspector.py, for every format that libmeg reads.

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/inspect/checkpoint_statistics.h"
#include "libmeg/checkpoint/inspect/checkpoint_summary.h"
#include "libmeg/text/printable.h"
#include "tools/checkpoint_inspect/checkpoint_inspect_answer.h"
#include "tools/checkpoint_inspect/checkpoint_inspect_html.h"
#include "tools/checkpoint_inspect/checkpoint_inspect_text.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/checkpoint_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/html_page.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::string path;
  std::optional<int64_t> iteration;
  std::optional<int64_t> true_vocab_size;
  CheckpointFlags reading;
  bool tensors = false;
  bool args = false;
  bool statistics = false;
  bool json = false;
  std::optional<std::string> html;
  std::unique_ptr<RE2> name;  ///< nullptr: all names.

  bool wants(std::string_view tensor) const {
    return RE2::PartialMatch(re2::StringPiece(tensor.data(), tensor.size()), *name);
  }
};

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("checkpoint_inspect",
              "shows what a checkpoint of Megatron-LM, or any file of torch.save, holds. It reads "
              "only metadata, unless --stats or --html need more, and executes nothing.");
  flags.examples({"checkpoint_inspect checkpoints",
                  "checkpoint_inspect checkpoints --tensors --stats --name 'layers\\.0\\.'",
                  "checkpoint_inspect checkpoints/iter_0005000 --json"});
  flags.positional(
      "DIR_OR_FILE", &arguments.path,
      "a folder that --save wrote, one of its iter_* folders, a Hugging Face folder, or one "
      "file");
  flags.value("--iteration", &arguments.iteration, "N", "show iteration N instead of the latest")
      .range(0, std::numeric_limits<int64_t>::max());
  flags
      .value("--true-vocab-size", &arguments.true_vocab_size, "N",
             "vocabulary size without padding, to count parameters without it")
      .range(1, std::numeric_limits<int64_t>::max());
  flags.group("What to show");
  std::optional<std::string> name;
  flags.toggle("--tensors", &arguments.tensors, "list every tensor of every file");
  flags.toggle("--args", &arguments.args, "list all args of the run");
  flags.toggle("--stats", &arguments.statistics,
               "show minimum, maximum, mean, norm, NaN and Inf of every tensor (reads the data)");
  flags.value("--name", &name, "REGEX",
              "show only tensors whose name matches, with --tensors and --stats");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.value("--html", &arguments.html, "FILE", "also write an HTML page (reads the data)");
  arguments.reading.declare(flags);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (!name.has_value()) return std::nullopt;
  RE2::Options options;
  // RE2 would print the error itself, in a form of its own.
  options.set_log_errors(false);
  arguments.name = std::make_unique<RE2>(*name, options);
  if (!arguments.name->ok()) {
    return fail_usage(make_error(StatusCode::kInvalidArgument,
                                 "--name: expected a regular expression, found {}: {}",
                                 text::printable(*name), arguments.name->error()));
  }
  // A pattern without --stats asks for names, so tensors are listed.
  if (!arguments.statistics) arguments.tensors = true;
  return std::nullopt;
}

Result<std::vector<checkpoint::NamedStatistics>> statistics_of(
    const checkpoint::CheckpointSummary& summary, const AnswerParts& parts) {
  ProgressBar bar(0);
  return checkpoint::checkpoint_statistics(summary, parts.wanted, bar.callback());
}

/// Why the exit code is 1: unreadable files, missing ranks, ranks that contradict each other,
/// formats of which no file could be opened. What is only not known as a whole is noted.
Status problem_of(const checkpoint::CheckpointSummary& summary) {
  bool any_is_open = false;
  for (const checkpoint::FileSummary& file : summary.files) {
    if (!file.status.ok()) return file.status;
    any_is_open = any_is_open || file.file != nullptr;
  }
  if (!summary.missing_ranks.empty()) {
    constexpr size_t kNamed = 8;
    const std::vector<std::string>& missing = summary.missing_ranks;
    const auto shown = std::span(missing).first(std::min(missing.size(), kNamed));
    return make_error(StatusCode::kNotFound, "{}: {} of {} rank folders are missing: {}{}",
                      summary.folder.folder, missing.size(), missing.size() + summary.ranks.size(),
                      fmt::join(shown, " "), missing.size() > kNamed ? " ..." : "");
  }
  const Status& whole = summary.whole_status;
  if (whole.ok() || summary.folder.format == checkpoint::CheckpointFormat::kSingleFile)
    return Status();
  const bool lacks_args = !summary.args.has_value() && whole.code() == StatusCode::kInvalidArgument;
  if (!any_is_open || (whole.code() != StatusCode::kUnsupported && !lacks_args)) return whole;
  note(whole.message() + (summary.whole.has_value() ? "; its optimizer is shown file by file"
                                                    : "; shown file by file"));
  return Status();
}

Result<checkpoint::CheckpointSummary> summarize(const Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder folder,
                       checkpoint::find_checkpoint(arguments.path, arguments.iteration));
  checkpoint::SummaryOptions options;
  MEG_ASSIGN_OR_RETURN(options.open, arguments.reading.options());
  options.true_vocab_size = arguments.true_vocab_size;
  return checkpoint::summarize_checkpoint(folder, options);
}

/// Prints and writes what was requested.
Status show(const checkpoint::CheckpointSummary& summary, const Arguments& arguments) {
  const bool page = arguments.html.has_value();
  if (page) note_new_folders(*arguments.html);
  AnswerParts parts{.tensors = arguments.tensors,
                    .args = arguments.args || page,
                    .placement = page,
                    .wanted = {}};
  if (arguments.name != nullptr) {
    parts.wanted = [&](std::string_view name) { return arguments.wants(name); };
  }
  ordered_json answer = answer_of(summary, parts);
  if (arguments.statistics || page) {
    MEG_ASSIGN_OR_RETURN(const std::vector<checkpoint::NamedStatistics> statistics,
                         statistics_of(summary, parts));
    add_statistics(statistics, answer);
  }
  if (page) {
    MEG_RETURN_IF_ERROR(write_page(*arguments.html, html_page(answer)));
    note(written_text(*arguments.html, {&*arguments.html, 1}));
  }
  if (!arguments.args) answer.erase("args");
  if (!arguments.statistics) answer.erase("statistics");
  if (arguments.json) {
    print_json(answer);
  } else {
    print_answer(answer);
  }
  return Status();
}

// NOLINTNEXTLINE(bugprone-exception-escape): not the program's own main(), run_program() catches.
int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  const Result<checkpoint::CheckpointSummary> summary = summarize(arguments);
  if (!summary.has_value()) return fail(no_checkpoint(arguments.path, summary.error()));
  const Status shown = show(*summary, arguments);
  if (!shown.ok()) return fail(shown);
  const Status problem = problem_of(*summary);
  return problem.ok() ? 0 : fail(problem);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
