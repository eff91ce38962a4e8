# `cmake --install`, in components: `tools` (programs without LibTorch), `train` (those with it), and `development`
# (libraries, headers, and the package that find_package(libmeg) reads). The wheel alone has `python`.

include(CMakePackageConfigHelpers)
set(meg_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/libmeg)
get_property(meg_components GLOBAL PROPERTY MEG_COMPONENTS)
get_property(meg_component_needs GLOBAL PROPERTY MEG_COMPONENT_NEEDS)
set(meg_torch_note "")
if(NOT MEG_WITH_TORCH)
  set(meg_torch_note " (this libmeg was built without LibTorch)")
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/libmegConfig.cmake.in
  ${CMAKE_BINARY_DIR}/libmegConfig.cmake INSTALL_DESTINATION ${meg_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/libmegConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/libmegConfig.cmake ${CMAKE_BINARY_DIR}/libmegConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindMegTorch.cmake
        DESTINATION ${meg_package_dir} COMPONENT development)
foreach(component IN LISTS meg_components)
  install(EXPORT libmeg_${component} NAMESPACE meg:: DESTINATION ${meg_package_dir} COMPONENT development)
endforeach()

# Man pages and completions are made of what the programs say; without Python they are left out.
get_property(meg_programs GLOBAL PROPERTY MEG_PROGRAMS)
find_program(MEG_INSTALL_PYTHON python3)
if(MEG_INSTALL_PYTHON AND meg_programs)
  list(TRANSFORM meg_programs REPLACE "(.+)" "\"\\1\"")
  list(JOIN meg_programs " " meg_programs)
  install(CODE "execute_process(
    COMMAND \"${MEG_INSTALL_PYTHON}\" \"${PROJECT_SOURCE_DIR}/scripts/make_man_pages.py\"
            \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\" ${meg_programs}
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT tools)
endif()
