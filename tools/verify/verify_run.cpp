// verify run: reads a whole log and names what a run as it should be does not have.

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "libmeg/logging/log_runs.h"
#include "libmeg/logging/run_findings.h"
#include "tools/common/byte_size.h"
#include "tools/common/flags/flags.h"
#include "tools/common/html_page.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/verify/run_page.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// A log, or event files where the path is a folder of them or one.
Result<logging::RunLog> read_any(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path place(path);
  const bool is_curves = std::filesystem::is_directory(place, ignored) ||
                         place.filename().native().find("tfevents") != std::string::npos;
  return is_curves ? logging::read_tensorboard_log(path) : logging::read_log(path);
}

void print_text(const logging::RunLog& log, const std::vector<logging::RunFinding>& findings) {
  for (const std::string& text : log.notes) note(text);
  const std::vector<logging::LoggedRun> runs = logging::runs_in(log);
  for (const logging::LoggedRun& run : runs) {
    const auto& first = log.steps[run.begin];
    const auto& last = log.steps[run.end - 1];
    const auto loss = last.lm_loss();
    fmt::print("run: iterations {} to {}{}{}\n", first.iteration, last.iteration,
               run.load.has_value() ? fmt::format(", from {}", run.load->folder) : "",
               loss.has_value() ? fmt::format(", lm loss {:.6g} at its end", loss->value) : "");
  }
  for (const logging::RunFinding& finding : findings) {
    fmt::print("{}{}: {}\n", finding.line > 0 ? fmt::format("line {}: ", finding.line) : "",
               finding.kind, finding.text);
  }
  if (findings.empty()) {
    fmt::print("{}: ok ({} lines, {} run{})\n", log.path, log.steps.size(), runs.size(),
               runs.size() == 1 ? "" : "s");
  }
}

ordered_json run_json(const logging::RunLog& log,
                      const std::vector<logging::RunFinding>& findings) {
  ordered_json object = json_object();
  object["log"] = log.path;
  object["ok"] = findings.empty();
  object["runs"] = ordered_json::array();
  for (const logging::LoggedRun& run : logging::runs_in(log)) {
    object["runs"].push_back(
        {{"first_iteration", log.steps[run.begin].iteration},
         {"last_iteration", log.steps[run.end - 1].iteration},
         {"lines", run.end - run.begin},
         {"loaded", run.load.has_value() ? ordered_json(run.load->folder) : ordered_json()}});
  }
  object["notes"] = log.notes;
  object["findings"] = ordered_json::array();
  for (const logging::RunFinding& finding : findings) {
    object["findings"].push_back({{"kind", finding.kind},
                                  {"line", finding.line},
                                  {"first_iteration", finding.iteration},
                                  {"last_iteration", finding.last},
                                  {"text", finding.text}});
  }
  return object;
}

}  // namespace

int verify_run_main(int argc, const char* const* argv) {
  std::string path;
  std::optional<std::string> html;
  bool json = false;
  Flags flags("verify run",
              "reads the log of a run, or its TensorBoard files, and names gaps, iterations that "
              "were computed again, spikes, jumps of the learning rate, falls of throughput and "
              "skipped iterations; ends with exit code 1 if there is any.");
  flags.examples({"verify run run.log --html run.html", "verify run tensorboard --json"});
  flags.positional("LOG", &path, "the lines that it printed, or a folder of event files");
  flags.value("--html", &html, "FILE", "also write an HTML page with the curves");
  flags.toggle("--json", &json, "print one JSON object");
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  std::error_code ignored;
  if (html && std::filesystem::equivalent(path, *html, ignored)) {
    return fail_usage(make_error(StatusCode::kInvalidArgument,
                                 "--html: expected another file than the log, found {}", *html));
  }
  const Result<logging::RunLog> log = read_any(path);
  if (!log.has_value()) return fail_usage(log.error());
  const std::vector<logging::RunFinding> findings = logging::find_in_run(*log);
  if (json) {
    print_json(run_json(*log, findings));
  } else {
    print_text(*log, findings);
  }
  if (html) {
    if (const Status status = write_page(*html, run_page(*log, findings)); !status.ok()) {
      return fail(status);
    }
    note(written_text(*html, {&*html, 1}));
  }
  if (findings.empty()) return 0;
  return fail(make_error(StatusCode::kCorruption, "{}: {} finding{}", path, findings.size(),
                         findings.size() == 1 ? "" : "s"));
}

}  // namespace meg::tools
