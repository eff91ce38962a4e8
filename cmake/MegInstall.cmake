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
find_program(MEG_INSTALL_PYTHON python3)
set(meg_pages_prefix "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}")
if(SKBUILD)
  # What a wheel has for the prefix of Python, not for the package.
  set(meg_pages_prefix ${SKBUILD_DATA_DIR})
endif()
foreach(package tools train)
  get_property(meg_programs GLOBAL PROPERTY MEG_PROGRAMS_${package})
  if(MEG_INSTALL_PYTHON AND meg_programs)
    list(TRANSFORM meg_programs REPLACE "(.+)" "\"\\1\"")
    list(JOIN meg_programs " " meg_programs)
    install(CODE "execute_process(
      COMMAND \"${MEG_INSTALL_PYTHON}\" \"${PROJECT_SOURCE_DIR}/scripts/make_man_pages.py\"
              \"${meg_pages_prefix}/${CMAKE_INSTALL_DATADIR}\" ${meg_programs}
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${package})
  endif()
endforeach()

install(FILES LICENSE THIRD_PARTY.md CHANGELOG.md TYPE DOC COMPONENT tools)
file(STRINGS scripts/apt-build.txt meg_linked_packages REGEX "-dev$")
# meg_install_licenses(COMPONENT): the notices of what is linked, from the packages that brought it.
function(meg_install_licenses component)
  foreach(package IN LISTS meg_linked_packages)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package}.txt
            COMPONENT ${component} OPTIONAL)
  endforeach()
endfunction()
meg_install_licenses(tools)
install(DIRECTORY docs TYPE DOC COMPONENT tools
        FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN decisions EXCLUDE PATTERN performance EXCLUDE)
install(DIRECTORY scripts/launch DESTINATION ${CMAKE_INSTALL_DATADIR}/libmeg COMPONENT tools USE_SOURCE_PERMISSIONS)
install(DIRECTORY examples TYPE DOC COMPONENT development)

# libmeg.pc, of the components above the LibTorch boundary. In the order in which a linker reads archives.
set(meg_pc_libraries "")
set(meg_pc_modules fmt simdjson)
foreach(component IN LISTS meg_components)
  if(component STREQUAL "libtorch")
    break()
  elseif(NOT component STREQUAL "kernels")
    list(PREPEND meg_pc_libraries -lmeg_${component})
    get_property(modules GLOBAL PROPERTY MEG_COMPONENT_MODULES_${component})
    list(APPEND meg_pc_modules ${modules})
  endif()
endforeach()
list(REMOVE_DUPLICATES meg_pc_modules)
list(JOIN meg_pc_modules ", " meg_pc_modules)
list(JOIN meg_pc_libraries " " meg_pc_libraries)
file(RELATIVE_PATH meg_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
cmake_path(SET meg_pc_prefix NORMALIZE "${meg_pc_prefix}.")
configure_file(${CMAKE_CURRENT_LIST_DIR}/libmeg.pc.in ${CMAKE_BINARY_DIR}/libmeg.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/libmeg.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# As their wheels are laid out, so that they find each other.
if(MEG_WITH_TORCH AND MEG_BUNDLE_TORCH)
  cmake_path(GET MegTorch_INCLUDE_DIR PARENT_PATH meg_torch_root)
  install(DIRECTORY ${meg_torch_root}/lib DESTINATION ${MEG_MODULE_FOLDER}/torch COMPONENT train
          FILES_MATCHING PATTERN *.so* PATTERN libtorch_python.so EXCLUDE)
  install(FILES ${meg_torch_root}/version.py DESTINATION ${MEG_MODULE_FOLDER}/torch COMPONENT train)
  foreach(folder IN LISTS MegTorch_CUDA_FOLDERS)
    cmake_path(GET folder PARENT_PATH library)
    cmake_path(GET library FILENAME library)
    install(DIRECTORY ${folder} DESTINATION ${MEG_MODULE_FOLDER}/nvidia/${library} COMPONENT train
            FILES_MATCHING PATTERN *.so*)
  endforeach()
endif()
