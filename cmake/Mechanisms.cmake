# Compiles mechanisms/*.attn into the program, so that it needs no file beside it.

# Declares `output`, the source file that holds every shipped formula. A changed formula reruns the generator
# because the formulas are dependencies; a new or deleted one because they are also its arguments.
function(saccade_embed_mechanisms output)
  file(GLOB mechanisms CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/mechanisms/*.attn")
  set(generator "${PROJECT_SOURCE_DIR}/cmake/embed_mechanisms.cmake")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" -P "${generator}" ${mechanisms}
    DEPENDS ${mechanisms} "${generator}" "${PROJECT_SOURCE_DIR}/cmake/embed_bytes.cmake"
    COMMENT "Embedding the mechanisms"
    VERBATIM)
endfunction()
