#include "tools/pretrain_gpt_flags.h"

#include <limits>

#include "libmeg/train/schedule/schedule_styles.h"
#include "tools/common/data_run.h"
#include "tools/common/device_flag.h"
#include "tools/pretrain_gpt_args.h"

namespace meg::tools {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kMostReal = std::numeric_limits<double>::max();
constexpr int64_t kMostThreads = 1024;
constexpr double kMostDropout = 0.999;

void declare_computing(Flags& flags, PretrainFlags& run) {
  flags.group("Computing");
  flags.toggle("--fp16", &run.fp16, "16-bit floats with a loss scale");
  flags.toggle("--bf16", &run.bf16, "bfloat16");
  declare_device_flag(flags, run.device);
  flags.value("--hidden-dropout", &run.hidden_dropout, "P", "after attention and MLP")
      .real_range(0, kMostDropout);
  flags.value("--attention-dropout", &run.attention_dropout, "P", "of attention probabilities")
      .real_range(0, kMostDropout);
  flags.value("--init-method-std", &run.init_method_std, "STD", "of the first weights")
      .real_range(0, kMostReal);
  flags.value("--layernorm-epsilon", &run.layernorm_epsilon, "EPS", "of norms")
      .old_name("--norm-epsilon")
      .real_range(0, 1);
  flags.toggle("--no-bias-gelu-fusion", &run.no_bias_gelu_fusion, "GELU by erf instead of tanh");
  declare_attention_backend_flag(flags, run.attention_backend);
  flags.toggle("--attention-softmax-in-fp32", &run.attention_softmax_in_fp32,
               "also where unfused attention computes in 16 bits");
  flags.toggle("--apply-query-key-layer-scaling", &run.apply_query_key_layer_scaling,
               "scores divided by the layer's number before the softmax");
  flags.value("--rotary-base", &run.rotary_base, "BASE", "of rotary positions")
      .real_range(1, kMostReal);
  flags.value("--rotary-percent", &run.rotary_percent, "SHARE", "of a head that turns")
      .real_range(0, 1);
  flags.toggle("--rotary-interleaved", &run.rotary_interleaved, "neighbours turn together");
  flags
      .toggle("--recompute-activations", &run.recompute_activations,
              "--recompute-granularity selective")
      .old_name("--checkpoint-activations");
  flags.value("--recompute-granularity", &run.recompute_granularity, "WHAT", "computed again")
      .choices({"selective", "full"});
  flags.value("--recompute-method", &run.recompute_method, "HOW", "which layers")
      .choices({"uniform", "block"});
  flags.value("--recompute-num-layers", &run.recompute_num_layers, "N", "layers at once")
      .range(1, kMost);
  flags.toggle("--accumulate-allreduce-grads-in-fp32", &run.accumulate_allreduce_grads_in_fp32,
               "16-bit gradients add up in fp32");
  flags.toggle("--deterministic-mode", &run.deterministic_mode,
               "a GPU's sums in one order, so that runs repeat to the bit");
  flags.value("--num-workers", &run.num_workers, "N", "threads that read samples")
      .range(0, kMostThreads);
}

void declare_optimizer(Flags& flags, PretrainFlags& run) {
  flags.group("Optimizer");
  flags.value("--optimizer", &run.optimizer, "NAME", "kind").choices({"adam"});
  flags.value("--lr", &run.lr, "LR", "highest learning rate").required().real_range(0, kMostReal);
  flags.value("--min-lr", &run.min_lr, "LR", "lowest").real_range(0, kMostReal);
  flags.value("--lr-decay-style", &run.lr_decay_style, "STYLE", "how it falls")
      .choices({"constant", "linear", "cosine", "inverse-square-root", "WSD"});
  flags.value("--lr-decay-iters", &run.lr_decay_iters, "N", "steps until it is lowest");
  flags.value("--lr-decay-samples", &run.lr_decay_samples, "N", "samples until then");
  flags.value("--lr-wsd-decay-style", &run.lr_wsd_decay_style, "STYLE", "the end of WSD")
      .choices({"exponential", "linear", "cosine", "minus_sqrt"});
  flags.value("--lr-wsd-decay-iters", &run.lr_wsd_decay_iters, "N", "steps of it");
  flags.value("--lr-wsd-decay-samples", &run.lr_wsd_decay_samples, "N", "samples of it");
  flags.value("--lr-warmup-fraction", &run.lr_warmup_fraction, "SHARE", "of the decay's length")
      .old_name("--warmup");
  flags.value("--lr-warmup-iters", &run.lr_warmup_iters, "N", "steps until it is highest");
  flags.value("--lr-warmup-samples", &run.lr_warmup_samples, "N", "samples until then");
  flags.value("--lr-warmup-init", &run.lr_warmup_init, "LR", "where warmup begins");
  flags.value("--weight-decay", &run.weight_decay, "WD", "of matrices");
  flags.value("--start-weight-decay", &run.start_weight_decay, "WD", "at the first step");
  flags.value("--end-weight-decay", &run.end_weight_decay, "WD", "at the last");
  flags.value("--weight-decay-incr-style", &run.weight_decay_incr_style, "STYLE", "between")
      .choices({"constant", "linear", "cosine"});
  flags.value("--adam-beta1", &run.adam_beta1, "BETA", "of the mean").real_range(0, 1);
  flags.value("--adam-beta2", &run.adam_beta2, "BETA", "of the squares").real_range(0, 1);
  flags.value("--adam-eps", &run.adam_eps, "EPS", "added to the root").real_range(0, kMostReal);
  flags.value("--clip-grad", &run.clip_grad, "NORM", "largest gradient norm; 0: any")
      .real_range(0, kMostReal);
  flags.value("--loss-scale", &run.loss_scale, "SCALE", "constant, with --fp16");
  flags.value("--initial-loss-scale", &run.initial_loss_scale, "SCALE", "of the dynamic one");
  flags.value("--min-loss-scale", &run.min_loss_scale, "SCALE", "of the dynamic one");
  flags.value("--loss-scale-window", &run.loss_scale_window, "N", "steps before it grows");
  flags.value("--hysteresis", &run.hysteresis, "N", "overflows before it falls");
  flags
      .toggle("--use-checkpoint-opt_param-scheduler", &run.use_checkpoint_opt_param_scheduler,
              "the checkpoint's schedule where flags differ")
      .old_name("--use-checkpoint-lr-scheduler");
  flags
      .toggle("--override-opt_param-scheduler", &run.override_opt_param_scheduler,
              "the flags' schedule where the checkpoint differs")
      .old_name("--override-lr-scheduler");
  flags.toggle("--no-check-for-nan-in-loss-and-grad", &run.no_check_for_nan,
               "go on where a loss or a gradient is NaN or Inf");
}

void declare_checkpoints(Flags& flags, PretrainFlags& run) {
  flags.group("Checkpoints");
  flags.value("--save", &run.save, "DIR", "where to save");
  flags.value("--load", &run.load, "DIR", "what to begin with, of any layout");
  flags.value("--save-interval", &run.save_interval, "N", "steps between saves").range(1, kMost);
  flags.value("--ckpt-format", &run.ckpt_format, "FORMAT", "of saved files")
      .choices({"torch", "torch_dist"});
  flags.value("--target-names", &run.names, "NAMES", "of parameters in saved files")
      .choices({"mcore", "legacy"});
  flags.toggle("--use-checkpoint-args", &run.use_checkpoint_args,
               "the model's shape from what --load names");
  flags.toggle("--finetune", &run.finetune, "take the weights alone, begin at step 0");
  flags.toggle("--no-load-optim", &run.no_load_optim, "leave the optimizer");
  flags.toggle("--no-load-rng", &run.no_load_rng, "leave the generators");
  flags.toggle("--no-save-optim", &run.no_save_optim, "do not save the optimizer");
  flags.toggle("--no-save-rng", &run.no_save_rng, "do not save the generators");
  flags.toggle("--exit-on-missing-checkpoint", &run.exit_on_missing_checkpoint,
               "no checkpoint in --load is an error");
  flags.toggle("--async-save", &run.async_save, "save in the background");
}

void declare_logs(Flags& flags, PretrainFlags& run) {
  flags.group("Logs and end");
  flags.value("--log-interval", &run.log_interval, "N", "steps between lines").range(1, kMost);
  flags.value("--tensorboard-dir", &run.tensorboard_dir, "DIR", "event files for TensorBoard");
  flags
      .value("--tensorboard-log-interval", &run.tensorboard_log_interval, "N",
             "steps between its points")
      .range(1, kMost);
  flags.toggle("--no-log-loss-scale-to-tensorboard", &run.no_log_loss_scale_to_tensorboard,
               "leave it out");
  flags.toggle("--log-validation-ppl-to-tensorboard", &run.log_validation_ppl_to_tensorboard,
               "perplexities too");
  flags.toggle("--log-timers-to-tensorboard", &run.log_timers_to_tensorboard, "times too");
  flags.toggle("--log-throughput", &run.log_throughput, "TFLOP/s in Megatron's line");
  flags
      .value("--timing-log-level", &run.timing_log_level, "LEVEL",
             "2: times of all parts of a step")
      .range(0, 2);
  flags.value("--timing-log-option", &run.timing_log_option, "OPTION", "of times of several ranks")
      .choices({"max", "minmax", "all"});
  flags.toggle("--log-num-zeros-in-grad", &run.log_num_zeros_in_grad, "zeros among gradients");
  flags.value("--exit-interval", &run.exit_interval, "N", "end at a multiple of N steps")
      .range(1, kMost);
  flags.value("--exit-duration-in-mins", &run.exit_duration_in_mins, "M", "end after M minutes");
  flags.toggle("--exit-signal-handler", &run.exit_signal_handler,
               "save and end at SIGTERM (always so here, and at SIGINT)");
}

train::SchedulerFlags schedule_of(const PretrainFlags& run, const DataRun& data) {
  train::SchedulerFlags schedule;
  schedule.train_iters = run.data.length.train_iters;
  schedule.train_samples = run.data.length.train_samples;
  schedule.global_batch_size = data.batches.global_batch_size();
  schedule.has_rampup_batch_size = !run.data.rampup_batch_size.empty();
  schedule.lr = run.lr;
  schedule.min_lr = run.min_lr;
  schedule.lr_decay_style = *train::parse_lr_decay_style(run.lr_decay_style);
  schedule.lr_decay_iters = run.lr_decay_iters;
  schedule.lr_decay_samples = run.lr_decay_samples;
  schedule.lr_wsd_decay_style = *train::parse_lr_wsd_decay_style(run.lr_wsd_decay_style);
  schedule.lr_wsd_decay_iters = run.lr_wsd_decay_iters;
  schedule.lr_wsd_decay_samples = run.lr_wsd_decay_samples;
  schedule.lr_warmup_fraction = run.lr_warmup_fraction;
  schedule.lr_warmup_iters = run.lr_warmup_iters;
  schedule.lr_warmup_samples = run.lr_warmup_samples;
  schedule.lr_warmup_init = run.lr_warmup_init;
  schedule.weight_decay = run.weight_decay;
  schedule.start_weight_decay = run.start_weight_decay;
  schedule.end_weight_decay = run.end_weight_decay;
  schedule.weight_decay_incr_style =
      *train::parse_weight_decay_incr_style(run.weight_decay_incr_style);
  schedule.use_checkpoint_opt_param_scheduler = run.use_checkpoint_opt_param_scheduler;
  schedule.override_opt_param_scheduler = run.override_opt_param_scheduler;
  return schedule;
}

train::BatchOptions batches_of(const PretrainFlags& run, const DataRun& data, int64_t eod) {
  train::BatchOptions batches;
  batches.sample.sequence_length = data.config.sequence_length;
  batches.sample.extra_token = data.config.extra_token;
  batches.sample.eod = eod;
  batches.sample.reset_position_ids = run.data.reset_position_ids;
  batches.sample.reset_attention_mask = run.data.reset_attention_mask;
  batches.sample.eod_mask_loss = run.data.eod_mask_loss;
  batches.dataloader_type = data.dataloader_type;
  batches.micro_batch_size = data.micro_batch_size;
  batches.create_attention_mask = run.data.reset_attention_mask;
  batches.num_workers = static_cast<int>(run.num_workers);
  return batches;
}

Status check_supported(const PretrainFlags& run, const DataRun& data) {
  if (data.data_parallel_size != 1 || run.data.tensor_model_parallel_size != 1 ||
      run.data.pipeline_model_parallel_size != 1 || run.data.context_parallel_size != 1) {
    return Status(StatusCode::kUnsupported, "more than one rank: not supported yet");
  }
  if (run.ckpt_format == "torch_dist") {
    return Status(StatusCode::kUnsupported, "--ckpt-format torch_dist: not supported yet");
  }
  return {};
}

}  // namespace

void declare_pretrain_flags(Flags& flags, PretrainFlags& run) {
  declare_model_flags(flags, run.model);
  declare_data_flags(flags, run.data);
  declare_computing(flags, run);
  declare_optimizer(flags, run);
  declare_checkpoints(flags, run);
  declare_logs(flags, run);
  declare_other_training_flags(flags);
}

Result<train::TrainerOptions> resolve_pretrain_flags(const PretrainFlags& run,
                                                     const Vocabulary& vocabulary) {
  MEG_ASSIGN_OR_RETURN(DataRun data, resolve_data_flags(run.data, environment_world_size()));
  MEG_RETURN_IF_ERROR(check_supported(run, data));
  data.config.vocab_size = vocabulary.vocab_size;
  data.config.eod = vocabulary.eod;
  MEG_ASSIGN_OR_RETURN(TrainingArgs args, pretrain_args(run, data, vocabulary));
  const FieldLookup fields = [&args](std::string_view name) { return args.field(name); };
  MEG_ASSIGN_OR_RETURN(GptConfig config, GptConfig::from_fields(fields));
  MEG_ASSIGN_OR_RETURN(nn::GptOptions model, nn::GptOptions::from_fields(fields));
  MEG_ASSIGN_OR_RETURN(model.device, device_of(run.device));
  MEG_ASSIGN_OR_RETURN(model.attention_backend,
                       nn::attention_backend_from_name(run.attention_backend));
  model.family = run.names == "legacy" ? NameFamily::kLegacy : NameFamily::kMcoreLocal;
  args.set("ffn_hidden_size", {config.ffn_hidden_size});
  args.set("kv_channels", {config.kv_channels});
  args.set("num_query_groups", {config.num_query_groups});
  args.set("position_embedding_type", {config.position_embedding_type});
  args.set("normalization", {config.normalization});

  train::CheckpointOptions checkpoints;
  checkpoints.load = run.load;
  checkpoints.save = run.save;
  checkpoints.save_interval = run.save_interval;
  checkpoints.finetune = run.finetune;
  checkpoints.no_load_optim = run.no_load_optim;
  checkpoints.no_load_rng = run.no_load_rng;
  checkpoints.no_save_optim = run.no_save_optim;
  checkpoints.no_save_rng = run.no_save_rng;
  checkpoints.exit_on_missing_checkpoint = run.exit_on_missing_checkpoint;
  checkpoints.async_save = run.async_save;
  checkpoints.names = model.family;

  train::TrainerOptions options{
      .config = config,
      .model = model,
      .optimizer = {.betas = {run.adam_beta1, run.adam_beta2},
                    .eps = run.adam_eps,
                    .clip_grad = run.clip_grad,
                    .log_num_zeros_in_grad = run.log_num_zeros_in_grad,
                    .check_for_nan_in_loss_and_grad = !run.no_check_for_nan,
                    .accumulate_allreduce_grads_in_fp32 = run.accumulate_allreduce_grads_in_fp32},
      .schedule = schedule_of(run, data),
      .loss_scale = run.loss_scale,
      .loss_scaler = {.initial_scale = run.initial_loss_scale,
                      .min_scale = run.min_loss_scale,
                      .growth_interval = run.loss_scale_window,
                      .hysteresis = run.hysteresis},
      .data = data.config,
      .batches = batches_of(run, data, vocabulary.eod),
      .batch_schedule = data.batches,
      .length = run.data.length,
      .checkpoints = std::move(checkpoints),
      .args = std::move(args),
      .deterministic_mode = run.deterministic_mode,
      .log_interval = run.log_interval,
      .tensorboard_dir = run.tensorboard_dir,
      .tensorboard = {.log_interval = run.tensorboard_log_interval,
                      .loss_scale = !run.no_log_loss_scale_to_tensorboard,
                      .timers = run.log_timers_to_tensorboard,
                      .validation_ppl = run.log_validation_ppl_to_tensorboard},
      .log_throughput = run.log_throughput,
      .timing_log_level = run.timing_log_level,
      .timing_log_option = run.timing_log_option == "max"   ? train::TimingLogOption::kMax
                           : run.timing_log_option == "all" ? train::TimingLogOption::kAll
                                                            : train::TimingLogOption::kMinMax,
      .exit_interval = run.exit_interval,
      .exit_duration_in_mins = run.exit_duration_in_mins,
      .version = data.config.version};
  return options;
}

}  // namespace meg::tools
