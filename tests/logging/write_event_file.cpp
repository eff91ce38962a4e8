// write_event_file FOLDER: the event file of a made-up run, for tensorboard_reads_event_files.py.

#include <cstdio>

#include "libmeg/logging/tensorboard_log.h"

namespace {

using namespace meg;
using namespace meg::logging;

Status write_run(const char* folder) {
  MEG_ASSIGN_OR_RETURN(meg::logging::TensorboardWriter writer,
                       meg::logging::TensorboardWriter::create(folder, {}));
  MEG_RETURN_IF_ERROR(writer.add_text("num_layers", "12", 0));
  MEG_RETURN_IF_ERROR(writer.add_text("data_path", "['tiny', '\xC3\xA4']", 0));
  const meg::logging::TensorboardCurves curves = {
      .log_interval = 2, .timers = true, .validation_ppl = true, .world_size = true};
  for (int64_t step = 1; step <= 400; ++step) {
    const auto real = static_cast<double>(step);
    meg::logging::IterationFigures figures = {.iteration = step,
                                              .train_iters = 400,
                                              .consumed_train_samples = 16 * step,
                                              .learning_rate = 1e-6 * real,
                                              .global_batch_size = 16,
                                              .loss_scale = 4294967296.0};
    if (step % 4 != 0) {
      figures.grad_norm = 0.5 * real;
      figures.num_zeros_in_grad = real;
    }
    const meg::logging::Losses losses = {{"lm loss", static_cast<float>(1.0 / real)}};
    MEG_RETURN_IF_ERROR(meg::logging::write_iteration(writer, curves, figures, losses, 8));
  }
  const std::vector<meg::logging::TimerTimes> timers = {{"forward-backward", {3.0, 4.0}},
                                                        {"optimizer", {0.0}}};
  MEG_RETURN_IF_ERROR(meg::logging::write_times(writer, curves, 400, 0.25, 123.5, timers, 100));
  MEG_RETURN_IF_ERROR(
      meg::logging::write_validation(writer, curves, 400, 6400, {{"lm loss", 2.0F}}));
  return writer.flush();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status =
      argc == 2 ? write_run(argv[1]) : Status(StatusCode::kInvalidArgument, "expected a folder");
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
