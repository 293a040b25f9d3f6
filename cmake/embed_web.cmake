# cmake -DOUTPUT=<file.cc> -DFUNCTION=<name> -P embed_web.cmake -- <file>...
#
# Writes files as arrays of characters, each by its name without the directory.
include("${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake")

set(arrays "")
set(rows "")
set(count 0)
set(begun FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE 0 ${last})
  set(file "${CMAKE_ARGV${index}}")
  if(NOT begun)
    if(file STREQUAL "--")
      set(begun TRUE)
    endif()
    continue()  # cmake's own arguments
  endif()
  get_filename_component(name "${file}" NAME)
  saccade_bytes_of("${file}" file_${count} array size)
  string(APPEND arrays "${array}")
  string(APPEND rows "    {\"${name}\", {file_${count}, ${size}}},\n")
  math(EXPR count "${count} + 1")
endforeach()

file(WRITE "${OUTPUT}" "// Written by cmake/embed_web.cmake from files that pages are made of.
#include \"saccade/report/web_files.h\"

#include <array>

namespace saccade {

std::span<const WebFile> ${FUNCTION}();

namespace {

${arrays}
constexpr std::array<WebFile, ${count}> kFiles = {{
${rows}}};

}  // namespace

std::span<const WebFile> ${FUNCTION}() { return kFiles; }

}  // namespace saccade
")
