#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/core/result.h"
#include "libmeg/train/trainer.h"
#include "tools/common/data_flags.h"
#include "tools/common/flags.h"
#include "tools/common/model_flags.h"

namespace meg::tools {

/// The command line of pretrain_gpt.
struct PretrainFlags {
  DataFlags data;
  ModelFlags model;

  // How it computes.
  bool fp16 = false;
  bool bf16 = false;
  double hidden_dropout = 0.1, attention_dropout = 0.1;
  double init_method_std = 0.02, layernorm_epsilon = 1e-5;
  bool no_bias_gelu_fusion = false;
  std::string attention_backend = "auto";
  bool attention_softmax_in_fp32 = false;
  bool apply_query_key_layer_scaling = false;
  double rotary_base = 10000, rotary_percent = 1.0;
  bool rotary_interleaved = false;
  bool deterministic_mode = false;
  bool recompute_activations = false;
  std::optional<std::string> recompute_granularity, recompute_method;
  std::optional<int64_t> recompute_num_layers;
  bool accumulate_allreduce_grads_in_fp32 = false;
  int64_t num_workers = 2;
  std::string device = "auto";  ///< Own: auto, cpu or cuda.

  // Optimizer and schedule.
  std::string optimizer = "adam";
  std::optional<double> lr;
  double min_lr = 0, weight_decay = 0.01;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8, clip_grad = 1.0;
  std::string lr_decay_style = "linear", weight_decay_incr_style = "constant";
  std::string lr_wsd_decay_style = "exponential";
  std::optional<int64_t> lr_decay_iters, lr_decay_samples, lr_wsd_decay_iters;
  std::optional<int64_t> lr_wsd_decay_samples;
  std::optional<double> lr_warmup_fraction, start_weight_decay, end_weight_decay;
  int64_t lr_warmup_iters = 0, lr_warmup_samples = 0;
  double lr_warmup_init = 0;
  bool use_checkpoint_opt_param_scheduler = false, override_opt_param_scheduler = false;
  std::optional<double> loss_scale;
  double initial_loss_scale = 4294967296.0, min_loss_scale = 1.0, loss_scale_window = 1000;
  int64_t hysteresis = 2;
  bool log_num_zeros_in_grad = false;
  bool no_check_for_nan = false;

  // Checkpoints.
  std::optional<std::string> save, load;
  std::optional<int64_t> save_interval;
  std::string ckpt_format = "torch";
  bool finetune = false, no_load_optim = false, no_load_rng = false;
  bool no_save_optim = false, no_save_rng = false;
  bool exit_on_missing_checkpoint = false, async_save = false;
  bool use_checkpoint_args = false;
  std::string names = "mcore";  ///< Own: --target-names {legacy,mcore}.

  // Logs.
  int64_t log_interval = 100;
  std::optional<std::string> tensorboard_dir;
  int64_t tensorboard_log_interval = 1;
  bool no_log_loss_scale_to_tensorboard = false, log_validation_ppl_to_tensorboard = false;
  bool log_timers_to_tensorboard = false;
  bool log_throughput = false;
  int64_t timing_log_level = 0;
  std::string timing_log_option = "minmax";
  std::optional<int64_t> exit_interval;
  std::optional<double> exit_duration_in_mins;
  bool exit_signal_handler = false;
};

/// Declares every flag of the trainer.
void declare_pretrain_flags(Flags& flags, PretrainFlags& pretrain);

/// The run that a command line asks for. kInvalidArgument for wrong usage, with the flag's name.
/// padded_vocab_size: rows of the embedding; vocab_size: tokens of the tokenizer; eod: its end of a
/// document.
struct Vocabulary {
  int64_t vocab_size = 0;
  int64_t padded_vocab_size = 0;
  int64_t eod = 0;
};

Result<train::TrainerOptions> resolve_pretrain_flags(const PretrainFlags& pretrain,
                                                     const Vocabulary& vocabulary);

}  // namespace meg::tools
