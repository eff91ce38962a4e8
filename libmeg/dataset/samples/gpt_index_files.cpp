#include "libmeg/dataset/samples/gpt_index_files.h"

#include <array>
#include <utility>
#include <vector>

#include "libmeg/core/atomic_file.h"
#include "libmeg/core/npy.h"
#include "libmeg/dataset/samples/gpt_index_builder.h"

namespace meg {
namespace {

Result<AtomicFile> create_npy(const std::string& path, DType dtype,
                              std::span<const int64_t> shape) {
  MEG_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  MEG_ASSIGN_OR_RETURN(const std::string header, npy_header(dtype, shape));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(header))));
  return file;
}

template <class T>
Result<AtomicFile> write_array(const std::string& path, std::span<const T> values) {
  const auto size = static_cast<int64_t>(values.size());
  MEG_ASSIGN_OR_RETURN(AtomicFile file, create_npy(path, dtype_of<T>(), {{size}}));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(values)));
  return file;
}

template <class T>
Result<AtomicFile> write_sample_index(const GptIndexPlan& plan, LittleEndianArray<int32_t> lengths,
                                      std::span<const int32_t> documents, const std::string& path) {
  MEG_ASSIGN_OR_RETURN(AtomicFile file, create_npy(path, dtype_of<T>(), {{plan.samples + 1, 2}}));
  const SampleRowSink<T> sink = [&file](std::span<const T> rows) {
    return file.write(std::as_bytes(rows));
  };
  MEG_RETURN_IF_ERROR(build_sample_index<T>(plan, lengths, documents, sink));
  return file;
}

template <class T>
Result<AtomicFile> write_shuffle_index(const GptIndexPlan& plan, RandomState& random,
                                       const std::string& path) {
  std::vector<T> shuffle(static_cast<size_t>(plan.samples));
  build_shuffle_index<T>(plan, random, shuffle);
  return write_array<T>(path, shuffle);
}

}  // namespace

Status write_gpt_index_files(const GptIndexPlan& plan, LittleEndianArray<int32_t> lengths,
                             SequenceRange range, uint32_t seed, const GptIndexPaths& paths) {
  RandomState random(seed);
  std::vector<int32_t> documents(static_cast<size_t>(plan.documents()));
  build_document_index(plan, range, random, documents);
  MEG_ASSIGN_OR_RETURN(AtomicFile document_file,
                       write_array<int32_t>(paths.document_index, documents));
  MEG_ASSIGN_OR_RETURN(
      AtomicFile sample_file,
      plan.sample_type == DType::kInt32
          ? write_sample_index<int32_t>(plan, lengths, documents, paths.sample_index)
          : write_sample_index<int64_t>(plan, lengths, documents, paths.sample_index));
  MEG_ASSIGN_OR_RETURN(AtomicFile shuffle_file,
                       plan.shuffle_type == DType::kUint32
                           ? write_shuffle_index<uint32_t>(plan, random, paths.shuffle_index)
                           : write_shuffle_index<int64_t>(plan, random, paths.shuffle_index));
  const std::array<AtomicFile*, 3> files = {&document_file, &sample_file, &shuffle_file};
  return AtomicFile::commit_all(files);
}

}  // namespace meg
