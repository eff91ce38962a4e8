#include "libmeg/logging/tensorboard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "libmeg/logging/internal/protobuf_message.h"
#include "libmeg/logging/internal/tf_record.h"

namespace meg::logging {
namespace {

constexpr int64_t kDtString = 7;

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// A file that nobody else has; `number` goes up until there is one.
Result<io::FileDescriptor> new_event_file(const std::string& folder) {
  constexpr int kMaxFiles = 10000;
  const auto now = static_cast<int64_t>(seconds_since_epoch());
  for (int number = 0; number < kMaxFiles; ++number) {
    const std::string path = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}.{}", folder, now,
                                         host_name(), getpid(), number);
    // O_EXCL: two writers of one process in one second must not share a file; O_APPEND: a flush is
    // one append of whole records, which TensorBoard may read at any time.
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) return io::FileDescriptor(fd, path);
    if (errno != EEXIST) return errno_error(errno, path);
  }
  return make_error(StatusCode::kResourceExhausted,
                    "{}: expected fewer than {} event files of one second, found them", folder,
                    kMaxFiles);
}

ProtobufMessage event_at(double wall_time, int64_t step) {
  ProtobufMessage event;
  event.add_double(1, wall_time);
  event.add_integer(2, step);
  return event;
}

std::string summary_event(int64_t step, const ProtobufMessage& value) {
  ProtobufMessage summary;
  summary.add_message(1, value);
  ProtobufMessage event = event_at(seconds_since_epoch(), step);
  event.add_message(5, summary);
  return event.bytes();
}

ProtobufMessage text_metadata() {
  ProtobufMessage plugin_data;
  plugin_data.add_bytes(1, "text");
  ProtobufMessage metadata;
  metadata.add_message(1, plugin_data);
  return metadata;
}

/// One string in a tensor of shape [1].
ProtobufMessage string_tensor(std::string_view text) {
  ProtobufMessage dimension;
  dimension.add_integer(1, 1);
  ProtobufMessage shape;
  shape.add_message(2, dimension);
  ProtobufMessage tensor;
  tensor.add_integer(1, kDtString);
  tensor.add_message(2, shape);
  tensor.add_bytes(8, text);
  return tensor;
}

}  // namespace

TensorboardWriter::TensorboardWriter(io::FileDescriptor file, const Options& options)
    : file_(std::move(file)), options_(options), last_flush_(steady_seconds()) {}

Result<TensorboardWriter> TensorboardWriter::create(const std::string& folder,
                                                    const Options& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return errno_error(error.value(), folder);
  MEG_ASSIGN_OR_RETURN(io::FileDescriptor file, new_event_file(folder));
  TensorboardWriter writer(std::move(file), options);
  // Event files begin with their version; events of the wall clock, flushes by the steady one.
  ProtobufMessage version;
  version.add_double(1, seconds_since_epoch());
  version.add_bytes(3, "brain.Event:2");
  MEG_RETURN_IF_ERROR(writer.add_event(version.bytes()));
  MEG_RETURN_IF_ERROR(writer.flush());
  return writer;
}

TensorboardWriter::~TensorboardWriter() {
  if (file_.is_open()) static_cast<void>(flush().ok());
}

Status TensorboardWriter::add_scalar(std::string_view tag, double value, int64_t step) {
  ProtobufMessage point;
  point.add_bytes(1, tag);
  point.add_float(2, static_cast<float>(value));
  return add_event(summary_event(step, point));
}

Status TensorboardWriter::add_text(std::string_view tag, std::string_view text, int64_t step) {
  ProtobufMessage value;
  value.add_bytes(1, std::string(tag) + "/text_summary");
  value.add_message(8, string_tensor(text));
  value.add_message(9, text_metadata());
  return add_event(summary_event(step, value));
}

Status TensorboardWriter::add_event(std::string_view event) {
  append_tf_record(pending_, event);
  ++pending_events_;
  const bool due = steady_seconds() - last_flush_ >= options_.flush_seconds;
  return due || pending_events_ >= options_.max_queue ? flush() : Status();
}

Status TensorboardWriter::flush() {
  last_flush_ = steady_seconds();
  pending_events_ = 0;
  // Given up whatever comes of it: written a second time after half of them had arrived, records
  // would stand in the file cut or twice.
  const std::string bytes = std::exchange(pending_, {});
  if (bytes.empty()) return Status();
  return file_.write(std::as_bytes(std::span(bytes)));
}

}  // namespace meg::logging
