# Compiles the scripts and style sheets of pages into the program: our own from src/saccade/report/web, and uPlot, which
# draws curves and comes from npm by name (scripts/setup installs it; it is never in the repository).

set(UPLOT_DIR "${PROJECT_SOURCE_DIR}/.setup/npm/node_modules/uplot" CACHE PATH "Directory of the npm package uplot")

# Declares `output`, the source file that holds every file. A new or deleted one reruns the generator because files are
# its arguments.
function(saccade_embed_web output)
  set(uplot "${UPLOT_DIR}/dist/uPlot.iife.min.js" "${UPLOT_DIR}/dist/uPlot.min.css" "${UPLOT_DIR}/LICENSE")
  foreach(file IN LISTS uplot)
    if(NOT EXISTS "${file}")
      # Only what makes pages needs it: a build of the lower rungs alone may go on.
      set(reason "${file} is missing: it is part of the npm package uplot, which draws the curves of reports. Run \
scripts/setup, which installs it, or set UPLOT_DIR to the directory of that package.")
      message(WARNING "${reason}")
      add_custom_command(OUTPUT "${output}" COMMAND ${CMAKE_COMMAND} -E echo "${reason}" COMMAND ${CMAKE_COMMAND} -E false
                         COMMENT "Embedding the scripts and styles of pages" VERBATIM)
      return()
    endif()
  endforeach()
  file(GLOB own CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/saccade/report/web/*.js"
                                  "${PROJECT_SOURCE_DIR}/src/saccade/report/web/*.css"
                                  "${PROJECT_SOURCE_DIR}/src/saccade/report/web/*.html")
  saccade_embed_files("${output}" web_files ${own} ${uplot})
endfunction()

# The same for the files of one folder, which a function of another name gives.
function(saccade_embed_folder output function folder)
  file(GLOB files CONFIGURE_DEPENDS "${folder}/*.js" "${folder}/*.css" "${folder}/*.html")
  saccade_embed_files("${output}" ${function} ${files})
endfunction()

function(saccade_embed_files output function)
  set(generator "${PROJECT_SOURCE_DIR}/cmake/embed_web.cmake")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DFUNCTION=${function}" -P "${generator}" -- ${ARGN}
    DEPENDS ${ARGN} "${generator}" "${PROJECT_SOURCE_DIR}/cmake/embed_bytes.cmake"
    COMMENT "Embedding the scripts and styles of pages"
    VERBATIM)
endfunction()
