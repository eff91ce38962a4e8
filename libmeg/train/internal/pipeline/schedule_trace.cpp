#include "libmeg/train/internal/pipeline/schedule_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "libmeg/io/atomic_file.h"

// Writes what each rank did when, in the Trace Event Format that chrome://tracing and Perfetto
// read. Ranks are shown as processes, so that the bubbles of a pipeline can be seen.
//
// Times are those of the system clock: unlike a steady clock's they can be compared over the
// processes of one machine. Over several machines they are as good as these are synchronized.

namespace meg::train {
namespace {

int64_t nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// ns as the format's microseconds.
std::string microseconds(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

/// What the viewer calls a rank.
std::string process_text(const parallel::Mesh& mesh) {
  return fmt::format(
      R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"rank {0}: tensor {1}, data {2}, pipeline {3}"}}}},
{{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})",
      mesh.rank(), mesh.place(parallel::Axis::kTensor), mesh.place(parallel::Axis::kData),
      mesh.place(parallel::Axis::kPipeline));
}

Status write_file(const std::string& path, const std::vector<std::string>& ranks) {
  const std::string text = fmt::format("{{\"traceEvents\":[\n{}\n],\"displayTimeUnit\":\"ms\"}}\n",
                                       fmt::join(ranks, ",\n"));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace

std::string ScheduleTrace::step_arguments(const PipelineStep& step) {
  return fmt::format(R"("micro_batch":{},"chunk":{})", step.micro_batch, step.chunk);
}

void ScheduleTrace::observe(const parallel::Communication& communication) {
  // Communication of the set-up and of evaluations is not part of the step.
  if (!in_step_) return;
  add(communication.operation, "communication",
      fmt::format(R"("group":"{}","bytes":{})", communication.group, communication.bytes),
      communication.begin, communication.end)
      .issued = nanoseconds(communication.issued);
}

ScheduleTrace::Event& ScheduleTrace::add(std::string_view name, std::string_view category,
                                         std::string arguments, Clock::time_point begin,
                                         Clock::time_point end) {
  return events_.emplace_back(Event{.name = name,
                                    .category = category,
                                    .arguments = std::move(arguments),
                                    .begin = nanoseconds(begin),
                                    .end = nanoseconds(end)});
}

std::string ScheduleTrace::text(const parallel::Mesh& mesh, int64_t origin) const {
  std::string text = process_text(mesh);
  for (const Event& event : events_) {
    // Clocks may be set back.
    const int64_t length = std::max<int64_t>(event.end - event.begin, 0);
    std::string arguments = event.arguments;
    if (event.issued) {
      arguments += fmt::format(",\"issued\":{}", microseconds(*event.issued - origin));
    }
    text += fmt::format(
        ",\n"
        R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":0,"ts":{},"dur":{},"args":{{{}}}}})",
        event.name, event.category, mesh.rank(), microseconds(event.begin - origin),
        microseconds(length), arguments);
  }
  return text;
}

Status ScheduleTrace::write(const std::string& path, const parallel::ParallelState& ranks) const {
  int64_t earliest = std::numeric_limits<int64_t>::max();
  for (const Event& event : events_) {
    earliest = std::min({earliest, event.begin, event.issued.value_or(event.begin)});
  }
  // All ranks subtract the earliest time of all. The maximum of negated times is their minimum.
  MEG_ASSIGN_OR_RETURN(const int64_t negative, ranks.max(-earliest));
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       ranks.of_all_ranks(text(ranks.mesh(), -negative)));
  return ranks.agree(ranks.mesh().rank() == 0 ? write_file(path, texts) : Status());
}

}  // namespace meg::train
