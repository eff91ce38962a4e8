# Compile options shared by every target of the project, and the function that declares a component.

add_library(meg_options INTERFACE)
add_library(meg::options ALIAS meg_options)
target_compile_features(meg_options INTERFACE cxx_std_20)
target_compile_options(meg_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>)
# g++ 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(meg_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

# Nobody replaces a function of a library, so calls inside one stay direct.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(meg_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
endif()

if(MEG_SANITIZE)
  set(meg_sanitizers ${MEG_SANITIZE})
  if(MEG_SANITIZE STREQUAL "address")
    set(meg_sanitizers address,undefined)
  endif()
  target_compile_options(meg_options INTERFACE
    -fsanitize=${meg_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(meg_options INTERFACE -fsanitize=${meg_sanitizers})
endif()
if(MEG_FUZZ)
  target_compile_options(meg_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Paths below the checkout are compared as relative ones, so that one clone takes what another one compiled.
find_program(MEG_CCACHE ccache)
if(MEG_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=true ${MEG_CCACHE})
endif()

# meg_join_sources(TARGET): the sources of each of its folders are compiled as one (MEG_JOIN_SOURCES), so that what they
# include is read once. Names in the unnamed namespaces of one folder must differ then; what is written once for each
# instruction set has the same ones, and stays apart.
function(meg_join_sources target)
  if(NOT MEG_JOIN_SOURCES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes a source that another one includes for a header, where such types would be a mistake.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cpp$")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE folder)
    cmake_path(GET folder PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# meg_place_library(TARGET): a library that may go into the Python module, and that programs share where it is a shared one
# (BUILD_SHARED_LIBS), as they do in the Python package.
function(meg_place_library target)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}
    INSTALL_RPATH "$ORIGIN")
  if(BUILD_SHARED_LIBS)
    target_link_options(${target} PRIVATE LINKER:-Bsymbolic-functions)
  endif()
endfunction()

# Every header that is installed; the file says what for.
set(meg_header_list ${PROJECT_SOURCE_DIR}/libmeg/installed_headers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${meg_header_list})
file(STRINGS ${meg_header_list} meg_installed_headers REGEX "\\.h$")

# meg_component(NAME [LINKS ...] [PRIVATE_LINKS ...] [PACKAGES ...] [PKG_CONFIG ...] [EXCLUDES regex]) declares the
# component in this folder as meg::NAME: all of its sources, and its headers, of which those in the list are installed.
# LINKS names only components that stand above it, and targets of PACKAGES, which find_package finds here and for those
# who use the installed component. PKG_CONFIG: modules, linked as private ones. EXCLUDES: sources of another target.
function(meg_component name)
  cmake_parse_arguments(component "" "EXCLUDES" "LINKS;PRIVATE_LINKS;PACKAGES;PKG_CONFIG" ${ARGN})
  foreach(package IN LISTS component_PACKAGES)
    find_package(${package} REQUIRED)
  endforeach()
  if(component_PKG_CONFIG)
    find_package(PkgConfig REQUIRED)
  endif()
  foreach(module IN LISTS component_PKG_CONFIG)
    pkg_check_modules(${module} REQUIRED IMPORTED_TARGET ${module})
    list(APPEND component_PRIVATE_LINKS PkgConfig::${module})
  endforeach()

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  if(component_EXCLUDES)
    list(FILTER sources EXCLUDE REGEX "${component_EXCLUDES}")
  endif()
  add_library(meg_${name} ${sources})
  meg_join_sources(meg_${name})
  add_library(meg::${name} ALIAS meg_${name})
  set_target_properties(meg_${name} PROPERTIES EXPORT_NAME ${name})
  meg_place_library(meg_${name})
  target_link_libraries(meg_${name} PUBLIC ${component_LINKS}
                        PRIVATE $<BUILD_INTERFACE:meg_options> ${component_PRIVATE_LINKS})
  target_compile_features(meg_${name} PUBLIC cxx_std_20)

  set(installed_headers ${meg_installed_headers})
  list(FILTER installed_headers INCLUDE REGEX "^libmeg/${name}/")
  list(TRANSFORM installed_headers PREPEND ${PROJECT_SOURCE_DIR}/)
  target_sources(meg_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${installed_headers})
  # The others in a target that nobody links, so that each is compiled alone, as the installed ones are.
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
  list(FILTER headers EXCLUDE REGEX "/internal/")
  list(REMOVE_ITEM headers ${installed_headers})
  add_library(meg_${name}_headers INTERFACE)
  target_link_libraries(meg_${name}_headers INTERFACE meg_${name})
  target_sources(meg_${name}_headers INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})

  install(TARGETS meg_${name} EXPORT libmeg_${name}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tools
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  # What libmegConfig.cmake says of it.
  set(links ${component_LINKS} ${component_PRIVATE_LINKS})
  list(FILTER links INCLUDE REGEX "^meg::")
  list(REMOVE_ITEM links meg::torch)
  list(TRANSFORM links REPLACE "^meg::" "")
  set_property(GLOBAL APPEND PROPERTY MEG_COMPONENTS ${name})
  string(CONCAT needs
    "set(libmeg_${name}_components ${links})\n"
    "set(libmeg_${name}_packages ${component_PACKAGES})\n"
    "set(libmeg_${name}_modules ${component_PKG_CONFIG})\n")
  set_property(GLOBAL APPEND_STRING PROPERTY MEG_COMPONENT_NEEDS "${needs}")
  set_property(GLOBAL PROPERTY MEG_COMPONENT_MODULES_${name} ${component_PKG_CONFIG})
endfunction()

# meg_module(NAME OWNER SOURCES ... LINKS ...): libmeg_NAME_module.so, which the component OWNER opens when it is needed,
# so that programs are not linked to LINKS.
function(meg_module name owner)
  cmake_parse_arguments(module "" "" "SOURCES;LINKS" ${ARGN})
  set(target meg_${name}_module)
  add_library(${target} MODULE ${module_SOURCES})
  target_link_libraries(${target} PRIVATE meg_options meg::base ${module_LINKS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # Its copy of meg::base is its own, whatever the program that opens it shows.
  target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "$ORIGIN/.."
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${MEG_MODULE_FOLDER})
  add_dependencies(meg_${owner} ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${MEG_MODULE_FOLDER} COMPONENT tools)
endfunction()
