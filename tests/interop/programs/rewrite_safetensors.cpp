// Reads a safetensors file and writes its tensors and metadata into a new one.
// rewrite_safetensors FROM TO

#include <cstdio>
#include <vector>

#include "libmeg/checkpoint/container/safetensors/safetensors_file.h"

namespace {

meg::Status rewrite(const char* from, const char* to) {
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::SafetensorsFile file,
                       meg::checkpoint::SafetensorsFile::open(from));
  const meg::checkpoint::SafetensorsHeader& header = file.header();
  MEG_ASSIGN_OR_RETURN(auto layout,
                       meg::checkpoint::lay_out_safetensors(header.tensors, header.metadata));
  MEG_ASSIGN_OR_RETURN(auto writer,
                       meg::checkpoint::SafetensorsWriter::create(to, std::move(layout)));
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    std::vector<std::byte> bytes(header.tensors[i].bytes);
    MEG_RETURN_IF_ERROR(file.read(header.tensors[i], 0, bytes));
    MEG_RETURN_IF_ERROR(writer.write(i, 0, bytes));
  }
  return writer.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const meg::Status status = rewrite(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
