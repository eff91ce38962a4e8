// Any bytes as the log of a run, as an event file, and as a record and a point of one with right
// checksums: an error of one line, or steps within bounds, of which the runs, the findings and what
// comes after a checkpoint can be told.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/logging/internal/protobuf_message.h"
#include "libmeg/logging/internal/tf_record.h"
#include "libmeg/logging/log_runs.h"
#include "libmeg/logging/run_findings.h"
#include "libmeg/logging/run_log.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using meg::Result;
using meg::logging::RunLog;

void check_resume(const RunLog& log, int64_t iteration) {
  const auto found = meg::logging::find_resume(log, iteration);
  if (!found.has_value()) {
    MEG_FUZZ_CHECK(found.error().message().find('\n') == std::string::npos);
    return;
  }
  MEG_FUZZ_CHECK(!found->lines.empty());
  for (const meg::logging::LoggedInterval& line : found->lines) {
    MEG_FUZZ_CHECK(line.after >= iteration && line.after < line.line.iteration);
  }
}

void check(const Result<RunLog>& log) {
  if (!log.has_value()) {
    MEG_FUZZ_CHECK(log.error().message().find('\n') == std::string::npos);
    return;
  }
  MEG_FUZZ_CHECK(!log->steps.empty());
  size_t end = 0;
  for (const meg::logging::LoggedRun& run : meg::logging::runs_in(*log)) {
    MEG_FUZZ_CHECK(run.begin == end && run.end > run.begin);
    end = run.end;
  }
  MEG_FUZZ_CHECK(end == log->steps.size());
  for (const meg::logging::RunFinding& finding : meg::logging::find_in_run(*log)) {
    MEG_FUZZ_CHECK(!finding.kind.empty() && finding.text.find('\n') == std::string::npos);
  }
  check_resume(*log, 0);
  check_resume(*log, log->steps.front().iteration - 1);
  check_resume(*log, log->steps.front().iteration);
  for (const meg::logging::LoggedLoad& load : log->loads) check_resume(*log, load.iteration);
}

std::string event_file_of(std::string_view record) {
  std::string file;
  meg::logging::append_tf_record(file, record);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const meg::test::MemoryFile file(bytes);
  check(meg::logging::read_log(file.path()));
  check(meg::logging::read_tensorboard_log(file.path()));

  const meg::test::MemoryFile record(event_file_of(bytes));
  check(meg::logging::read_tensorboard_log(record.path()));

  // As the name of a curve, too: names decide what a point is.
  meg::logging::ProtobufMessage value, summary, event;
  value.add_bytes(1, bytes);
  value.add_float(2, 2.5F);
  summary.add_message(1, value);
  event.add_integer(2, static_cast<int64_t>(size));
  event.add_message(5, summary);
  const meg::test::MemoryFile curve(event_file_of(event.bytes()));
  check(meg::logging::read_tensorboard_log(curve.path()));
  return 0;
}
