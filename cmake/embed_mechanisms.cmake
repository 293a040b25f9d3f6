# cmake -DOUTPUT=<file.cc> -P embed_mechanisms.cmake <file.attn>...
#
# Writes the formulas as arrays of characters.
include("${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake")

set(names "")
math(EXPR last "${CMAKE_ARGC} - 1")
set(arrays "")
set(rows "")
foreach(index RANGE 0 ${last})
  set(file "${CMAKE_ARGV${index}}")
  if(NOT file MATCHES "\\.attn$")
    continue()  # cmake's own arguments
  endif()
  get_filename_component(name "${file}" NAME_WE)
  if(NOT file MATCHES "/[a-z][a-z0-9_]*\\.attn$")
    message(FATAL_ERROR "${file}: a mechanism's name is lower-case letters, digits and '_'")
  endif()
  list(APPEND names "${name}")
  set(file_${name} "${file}")
endforeach()
list(SORT names)

foreach(name IN LISTS names)
  saccade_bytes_of("${file_${name}}" text_${name} array size)
  string(APPEND arrays "${array}")
  string(APPEND rows "    {\"${name}\", {text_${name}, ${size}}},\n")
endforeach()

list(LENGTH names count)
file(WRITE "${OUTPUT}" "// Written by cmake/embed_mechanisms.cmake from mechanisms/*.attn.
#include \"saccade/formula/mechanisms.h\"

#include <array>

namespace saccade {
namespace {

${arrays}
constexpr std::array<EmbeddedMechanism, ${count}> kMechanisms = {{
${rows}}};

}  // namespace

std::span<const EmbeddedMechanism> embedded_mechanisms() { return kMechanisms; }

}  // namespace saccade
")
