/* The index of a prepared file, and the choice of a plan for a device. */
#ifndef FF_CHOOSE_H
#define FF_CHOOSE_H

#include "container.h"
#include "json.h"

typedef struct ff_index {
    ff_json_document document;
    const ff_json *models, *plans, *binaries;
    const ff_device *device;
    int ignores_facts; /* the file is not trusted, so its facts count as unknown */
} ff_index;

ff_status ff_index_read(ff_index *index, ff_container *file, const ff_device *device,
                        ff_error *error);
/* Returns the name of a model; NULL if `number` is out of range. */
const char *ff_index_model(const ff_index *index, size_t number);

/* Returns a probed fact of this device that the file stores; NULL if it is unknown. */
const ff_json *ff_index_fact(const ff_index *index, const char *name);
int ff_index_is_true(const ff_index *index, const char *name); /* the fact is known and true */

typedef struct ff_choice {
    const ff_json *row;
    size_t model, number;
} ff_choice;

/* Chooses the plan of a model that suits the device best. */
ff_status ff_index_choose(const ff_index *index, const ff_options *options, ff_choice *choice,
                          ff_error *error);

#endif
