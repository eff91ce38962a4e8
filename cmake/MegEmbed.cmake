# meg_embed(TARGET FILE HEADER NAMESPACE FUNCTION) compiles FILE into TARGET: FUNCTION, which HEADER declares as
# a std::string_view() in NAMESPACE, gives its bytes.
#
# Run with -P (MEG_EMBED_FILE, MEG_EMBED_HEADER, MEG_EMBED_NAMESPACE, MEG_EMBED_FUNCTION, MEG_EMBED_OUTPUT) it writes the C++.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${MEG_EMBED_FILE} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(REGEX REPLACE "(('[^']+',)('[^']+',)('[^']+',)('[^']+',)('[^']+',)('[^']+',)('[^']+',)('[^']+',))"
         "\\1\n" bytes "${bytes}")
  file(WRITE ${MEG_EMBED_OUTPUT}
"#include \"${MEG_EMBED_HEADER}\"

namespace ${MEG_EMBED_NAMESPACE} {
namespace {

constexpr char kBytes[] = {
${bytes}};

}  // namespace

std::string_view ${MEG_EMBED_FUNCTION}() { return {kBytes, ${size}}; }

}  // namespace ${MEG_EMBED_NAMESPACE}
")
  return()
endif()

set(MEG_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(meg_embed target file header namespace function)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D MEG_EMBED_FILE=${CMAKE_CURRENT_SOURCE_DIR}/${file}
            -D MEG_EMBED_HEADER=${header}
            -D MEG_EMBED_NAMESPACE=${namespace} -D MEG_EMBED_FUNCTION=${function}
            -D MEG_EMBED_OUTPUT=${output} -P ${MEG_EMBED_SCRIPT}
    DEPENDS ${file} ${MEG_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
