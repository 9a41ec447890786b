/* Steps that a tool asks for one by one while a model is open: see --steps. */
#ifndef FF_STEPS_H
#define FF_STEPS_H

#include <stdio.h>

#include "../fourfold.h"

/* Loads a model, reads steps until the end, and answers each with a line. */
ff_status ff_do_steps(ff_player *player, const ff_options *options, FILE *steps, ff_error *error);

#endif
