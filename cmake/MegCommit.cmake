# Writes HEADER, which defines MEG_COMMIT: the commit of SOURCE_DIR, or "unknown" where it is no
# checkout. A header that says the same is left alone, so that nothing is built again.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND git describe --always --dirty --abbrev=10 --exclude=*
  WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define MEG_COMMIT \"@commit@\"\n" @ONLY)
