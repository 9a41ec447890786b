/* Commands that a tool sends one by one while a model is loaded: see --steps. */
#ifndef FF_STEPS_H
#define FF_STEPS_H

#include <stdio.h>

#include "../fourfold.h"

/* Loads a model, and answers each line of a stream of steps with a line of JSON. */
ff_status ff_run_steps(ff_player *player, const ff_options *options, FILE *steps, ff_error *error);

#endif
