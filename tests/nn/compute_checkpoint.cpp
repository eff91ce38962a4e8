/// compute_checkpoint LOAD WINDOWS OUT [LOAD WINDOWS OUT ...]
/// What each model computes as its checkpoint's args say, for megatron_core_computes_models.py.
/// WINDOWS: .npy, int64 [b, s + 1]. Writes raw fp32 arrays into the folder OUT: `logits`, `loss`
/// (of each token), and of every parameter `gradient.NAME` of the losses' mean and `initial.NAME`,
/// what training would begin with.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "libmeg/nn/initialise_weights.h"
#include "tests/nn/oracle_model.h"

namespace {

using meg::Status;

Status write(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kFloat).contiguous();
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(values.const_data_ptr()),
             static_cast<std::streamsize>(values.nbytes()));
  file.close();
  if (!file) return meg::Status(meg::StatusCode::kIoError, path.string() + ": cannot be written");
  return {};
}

Status write_gradients(meg::nn::GptModel& model, const at::Tensor& windows,
                       const std::filesystem::path& out) {
  const int64_t s = windows.size(1) - 1;
  const meg::nn::GptInput input = {.tokens = windows.narrow(1, 0, s).contiguous()};
  MEG_ASSIGN_OR_RETURN(const at::Tensor logits, model.logits(input));
  MEG_RETURN_IF_ERROR(write(out / "logits", logits));
  // Auxiliary losses are training's.
  model.set_training(true);
  MEG_ASSIGN_OR_RETURN(const at::Tensor loss,
                       model.loss(input, windows.narrow(1, 1, s).contiguous()));
  MEG_RETURN_IF_ERROR(write(out / "loss", loss));
  loss.mean().backward();
  for (const meg::nn::GptParameter& parameter : model.parameters()) {
    MEG_RETURN_IF_ERROR(write(out / ("gradient." + parameter.name), parameter.tensor.grad()));
  }
  return {};
}

Status write_initial(meg::nn::GptModel& model, const std::filesystem::path& out) {
  MEG_RETURN_IF_ERROR(meg::nn::initialise_weights(model, 1));
  for (const meg::nn::GptParameter& parameter : model.parameters()) {
    MEG_RETURN_IF_ERROR(write(out / ("initial." + parameter.name), parameter.tensor));
  }
  return {};
}

Status compute(const std::string& load, const std::string& windows,
               const std::filesystem::path& out) {
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::MegatronCheckpoint checkpoint,
                       meg::test::open_checkpoint(load));
  const bool bf16 = checkpoint.arg("bf16") == meg::megatron::FieldValue(true);
  MEG_ASSIGN_OR_RETURN(meg::nn::GptModel model,
                       meg::test::model_of(checkpoint, [&](meg::model::GptConfig&, auto& options) {
                         if (bf16) options.params_dtype = at::kBFloat16;
                       }));
  MEG_RETURN_IF_ERROR(write_gradients(model, meg::test::read_npy<int64_t>(windows), out));
  return write_initial(model, out);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || count % 3 != 1) return 2;
  for (int i = 1; i < count; i += 3) {
    const Status status = compute(arguments[i], arguments[i + 1], arguments[i + 2]);
    if (status.ok()) continue;
    fmt::print(stderr, "error: {}\n", status.message());
    return 1;
  }
  return 0;
}
