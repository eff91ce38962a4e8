#include <charconv>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/schedule/schedule_styles.h"
#include "libmeg/text/printable.h"
#include "libmeg/train/trainer.h"

// Makes TrainerOptions from Megatron's arguments. Each line names the field of args and where it
// goes; types, ranges and defaults are in the argument table, so that a flag, a checkpoint's args
// and a library caller's fields are checked alike.

namespace meg::train {
namespace {

Result<int64_t> parse_iteration(std::string_view word) {
  int64_t iteration = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), iteration);
  if (error == std::errc() && end == word.data() + word.size() && iteration >= 0) return iteration;
  return make_error(StatusCode::kInvalidArgument, "expected iterations, found {}",
                    text::printable(word));
}

void take_optimizer(megatron::FieldReader& args, TrainerOptions& run) {
  args.take("adam_beta1", run.optimizer.betas[0]);
  args.take("adam_beta2", run.optimizer.betas[1]);
  args.take("adam_eps", run.optimizer.eps);
  args.take("clip_grad", run.optimizer.clip_grad);
  args.take("log_num_zeros_in_grad", run.optimizer.log_num_zeros_in_grad);
  args.take("accumulate_allreduce_grads_in_fp32", run.optimizer.accumulate_allreduce_grads_in_fp32);
  args.take("grad_reduce_in_bf16", run.optimizer.grad_reduce_in_bf16);
  args.take("use_distributed_optimizer", run.optimizer.use_distributed_optimizer);
  args.take("overlap_grad_reduce", run.optimizer.overlap_grad_reduce);
  args.take("overlap_param_gather", run.optimizer.overlap_param_gather);
  args.take("ddp_bucket_size", run.optimizer.ddp_bucket_size);
  args.take("ddp_num_buckets", run.optimizer.ddp_num_buckets);
  args.take("loss_scale", run.loss_scale);
  args.take("initial_loss_scale", run.loss_scaler.initial_scale);
  args.take("min_loss_scale", run.loss_scaler.min_scale);
  args.take("loss_scale_window", run.loss_scaler.growth_interval);
  args.take("hysteresis", run.loss_scaler.hysteresis);
  args.take("check_for_nan_in_loss_and_grad", run.optimizer.check_for_nan_in_loss_and_grad);
  args.take("deterministic_mode", run.deterministic_mode);
  args.take("calculate_per_token_loss", run.calculate_per_token_loss);
  args.parse_list("iterations_to_skip", run.iterations_to_skip, parse_iteration);
}

Result<checkpoint::CheckpointFormat> parse_ckpt_format(std::string_view text) {
  for (const auto format :
       {checkpoint::CheckpointFormat::kMpRank, checkpoint::CheckpointFormat::kTorchDist}) {
    if (text == checkpoint::checkpoint_format_text(format)) return format;
  }
  return make_error(StatusCode::kInvalidArgument, "expected torch or torch_dist, found {}", text);
}

void take_checkpoints(megatron::FieldReader& args, CheckpointOptions& checkpoints) {
  args.take("load", checkpoints.load);
  args.take("ckpt_step", checkpoints.ckpt_step);
  args.take("save", checkpoints.save);
  args.take("save_interval", checkpoints.save_interval);
  args.take("finetune", checkpoints.finetune);
  args.take("no_load_optim", checkpoints.no_load_optim);
  args.take("no_load_rng", checkpoints.no_load_rng);
  args.take("no_save_optim", checkpoints.no_save_optim);
  args.take("no_save_rng", checkpoints.no_save_rng);
  args.take("exit_on_missing_checkpoint", checkpoints.exit_on_missing_checkpoint);
  args.take("async_save", checkpoints.async_save);
  args.parse("ckpt_format", checkpoints.ckpt_format, parse_ckpt_format);
}

Result<logging::TimingLogOption> parse_timing_log_option(std::string_view text) {
  if (text == "max") return logging::TimingLogOption::kMax;
  if (text == "minmax") return logging::TimingLogOption::kMinMax;
  if (text == "all") return logging::TimingLogOption::kAll;
  return make_error(StatusCode::kInvalidArgument, "expected max, minmax or all, found {}", text);
}

void take_logs(megatron::FieldReader& args, TrainerOptions& run) {
  args.take("log_interval", run.log_interval);
  args.take("log_params_norm", run.log_params_norm);
  args.take("log_throughput", run.log_throughput);
  args.take("timing_log_level", run.timing_log_level);
  args.parse("timing_log_option", run.timing_log_option, parse_timing_log_option);
  args.take("tensorboard_dir", run.tensorboard_dir);
  args.take("tensorboard_log_interval", run.tensorboard.log_interval);
  args.take("log_loss_scale_to_tensorboard", run.tensorboard.loss_scale);
  args.take("log_timers_to_tensorboard", run.tensorboard.timers);
  args.take("log_validation_ppl_to_tensorboard", run.tensorboard.validation_ppl);
  args.take("log_world_size_to_tensorboard", run.tensorboard.world_size);
  args.take("exit_interval", run.exit_interval);
  args.take("exit_duration_in_mins", run.exit_duration_in_mins);
}

}  // namespace

void TrainerOptions::take_fields(megatron::FieldReader& reader) {
  schedule.take_fields(reader);
  take_optimizer(reader, *this);
  take_checkpoints(reader, checkpoints);
  take_logs(reader, *this);
  reader.take("num_workers", batches.num_workers);
  reader.take("sequence_parallel", sequence_parallel);
}

}  // namespace meg::train
