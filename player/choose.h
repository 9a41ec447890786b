/* The index of a prepared file, and which of its plans a device plays. */
#ifndef FF_CHOOSE_H
#define FF_CHOOSE_H

#include "container.h"
#include "json.h"

typedef struct ff_index {
    ff_json_document document;
    const ff_json *models, *plans, *binaries;
    const ff_device *device;
} ff_index;

ff_status ff_index_read(ff_index *index, ff_container *file, const ff_device *device,
                        ff_error *error);
/* The name of a model; NULL beyond the last. */
const char *ff_index_model(const ff_index *index, size_t number);

/* What trials told of this very device, as rows of the file have it; NULL where nothing did. */
const ff_json *ff_index_fact(const ff_index *index, const char *name);
int ff_index_knows(const ff_index *index, const char *name); /* that the fact is true */

typedef struct ff_choice {
    const ff_json *row;
    size_t model, number;
} ff_choice;

/* The plan of a model that fits the device best. */
ff_status ff_index_choose(const ff_index *index, const ff_options *options, ff_choice *choice,
                          ff_error *error);

#endif
