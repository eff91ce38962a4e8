#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::logging {

/// An event file that TensorBoard shows while it grows; so, unlike other outputs, it has its final
/// name from the start, events.out.tfevents.<seconds>.<host>.<pid>.<number>, and only whole records
/// are appended. One thread at a time.
///
/// Records are TFRecords of tensorflow's Event message:
///     Event           {1: wall_time double, 2: step int64, 3: file_version, 5: Summary}
///     Summary         {1: Value...}
///     Value           {1: tag, 2: simple_value float, 8: TensorProto, 9: SummaryMetadata}
///     SummaryMetadata {1: {1: plugin_name}}
///     TensorProto     {1: dtype, 2: shape {2: {1: size}}, 8: string_val}
/// Mirrors torch.utils.tensorboard.SummaryWriter as Megatron uses it.
class TensorboardWriter {
 public:
  struct Options {
    int64_t max_queue = 1000;    ///< --tensorboard-queue-size: events kept back, at most.
    double flush_seconds = 120;  ///< Maximum time between flushes, checked at every event.
  };

  /// Creates the folder if it is missing, and a new file in it. kIoError and kNotFound name them.
  static Result<TensorboardWriter> create(const std::string& folder, const Options& options);

  TensorboardWriter(TensorboardWriter&&) = default;
  TensorboardWriter& operator=(TensorboardWriter&&) = delete;

  /// Writes buffered events; errors are lost here, so call flush() before.
  ~TensorboardWriter();

  const std::string& path() const { return file_.path(); }

  /// A point of a curve. Values are fp32 in the file. Errors, here and below, are those of writing;
  /// events kept back are then lost.
  Status add_scalar(std::string_view tag, double value, int64_t step);

  /// A text under tag + "/text_summary", where TensorBoard's text page looks; Megatron shows its
  /// args so.
  Status add_text(std::string_view tag, std::string_view text, int64_t step);

  Status flush();

 private:
  TensorboardWriter(io::FileDescriptor file, const Options& options);

  Status add_event(std::string_view event);

  io::FileDescriptor file_;
  Options options_;
  std::string pending_;  ///< Whole records.
  int64_t pending_events_ = 0;
  double last_flush_ = 0;
};

}  // namespace meg::logging
