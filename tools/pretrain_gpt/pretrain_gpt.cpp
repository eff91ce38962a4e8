// Trains a GPT model. Stands for Megatron-LM pretrain_gpt.py.

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "tools/common/byte_size.h"
#include "tools/common/field_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/passive_openmp.h"
#include "tools/common/progress_bar.h"
#include "tools/common/ranks.h"
#include "tools/common/report.h"
#include "tools/pretrain_gpt/pretrain_gpt_args.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"
#include "tools/pretrain_gpt/pretrain_gpt_vocabulary.h"

namespace meg::tools {
namespace {

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// What all ranks do alike is reported by the first one:
/// one line for all ranks, whose output goes to one terminal.
class FirstRank {
 public:
  explicit FirstRank(const parallel::ParallelState& ranks) : speaks_(ranks.mesh().rank() == 0) {}

  void operator()(const std::string& line) const {
    if (speaks_) print(line);
  }

 private:
  bool speaks_;
};

/// How far a run on one rank has come, between the lines of its log.
class StepProgress {
 public:
  explicit StepProgress(std::optional<int64_t> train_iters) : train_iters_(train_iters) {}

  void begin(int64_t iteration) {
    first_ = iteration;
    bar_.emplace(/*log_interval=*/0);
  }

  void update(int64_t iteration) {
    if (!train_iters_ || !bar_) return;
    bar_->update({.documents = iteration - first_,
                  .total_documents = *train_iters_ - first_,
                  .counted = "iterations"});
  }

  void print_line(const std::string& line) {
    if (bar_) bar_->clear();
    print(line);
  }

 private:
  std::optional<int64_t> train_iters_;
  int64_t first_ = 0;
  std::optional<ProgressBar> bar_;
};

Status train(const PretrainFlags& flags, const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(check_ranks(flags, ranks));
  MEG_ASSIGN_OR_RETURN(const Vocabulary vocabulary, build_vocabulary(flags, FirstRank(ranks)));
  MEG_ASSIGN_OR_RETURN(train::TrainerOptions options,
                       resolve_pretrain_flags(flags, vocabulary, ranks));
  if (flags.print_arguments) {
    const FirstRank print_first(ranks);
    for (const std::string& line : arguments_lines(options.args)) print_first(line);
  }
  // Do this only now: while ranks are meeting a signal ends the process at once.
  stop_at_signals();
  StepProgress progress(options.length.train_iters);
  const train::TrainerHooks hooks{
      .print = [&progress](const std::string& line) { progress.print_line(with_flags(line)); },
      .received_signal = interrupting_signal};
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<train::Trainer> trainer,
                       train::Trainer::create(std::move(options), hooks, ranks));
  // A bar of several ranks would be drawn over the others' lines.
  if (ranks.mesh().world_size() == 1) {
    progress.begin(trainer->iteration());
    trainer->watch([&](const train::StepReport& step) { progress.update(step.iteration); }, {});
  }
  MEG_RETURN_IF_ERROR(trainer->run());
  if (flags.trace_schedule.has_value() && ranks.mesh().rank() == 0) {
    progress.print_line(written_text(*flags.trace_schedule, {&*flags.trace_schedule, 1}));
  }
  // Do this only without an error: after one, ranks end without waiting for each other.
  return ranks.end();
}

int run(const PretrainFlags& flags) {
  const Result<ExpertRankFlags> experts = expert_ranks_of(flags);
  if (!experts.has_value()) return fail(experts.error());
  const Result<parallel::ParallelState> ranks = connect_ranks(flags.args, flags.device, *experts);
  if (!ranks.has_value()) return fail(ranks.error());
  const Status status = train(flags, *ranks);
  return status.ok() ? 0 : fail_once(status, *ranks);
}

int main(int argc, const char* const* argv) {
  PretrainFlags arguments;
  Flags flags("pretrain_gpt", "trains a GPT model on CPUs or GPUs, on one rank or several.");
  flags.usage(
      "--num-layers N --hidden-size N --num-attention-heads N --seq-length N "
      "--max-position-embeddings N --micro-batch-size N --train-iters N --data-path PREFIX...");
  flags.examples(
      {"pretrain_gpt --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
       "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 16 --train-iters "
       "1000 --lr 1.5e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-fraction 0.01 --bf16 "
       "--data-path corpus_text_document --split 949,50,1 --vocab-file gpt2-vocab.json "
       "--merge-file gpt2-merges.txt --save checkpoints --load checkpoints --save-interval 500",
       "pretrain_gpt --use-checkpoint-args --load checkpoints --save checkpoints --train-iters "
       "2000 --lr 1e-5 --micro-batch-size 4 --data-path corpus_text_document --vocab-file "
       "gpt2-vocab.json --merge-file gpt2-merges.txt"});
  declare_pretrain_flags(flags, arguments);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  if (const Status status = finish_pretrain_flags(flags, arguments); !status.ok())
    return fail_by_code(status);
  return run(arguments);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_passively(argc, argv, meg::tools::main); }
