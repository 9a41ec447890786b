/* Chooses a plan of a prepared file whose requirements the device meets. */
#include "choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ff_json *get(const ff_index *index, const ff_json *object, const char *name) {
    return ff_json_get(&index->document, object, name);
}

/* Returns a string member of an object; "" if it has none. */
static const char *text(const ff_index *index, const ff_json *object, const char *name) {
    const char *value = ff_json_text(get(index, object, name));
    return value == NULL ? "" : value;
}

static const ff_json *list_of(const ff_index *index, const char *name) {
    const ff_json *list = get(index, index->document.nodes, name);
    return list != NULL && list->kind == FF_JSON_LIST ? list : NULL;
}

ff_status ff_index_read(ff_index *index, ff_container *file, const ff_device *device,
                        ff_error *error) {
    ff_section section;
    ff_status status = ff_container_section(file, 0, "index", &section, error);
    memset(index, 0, sizeof *index);
    index->device = device;
    if (status != FF_OK) return status;
    if (ff_json_read(&index->document, section.bytes, section.size)) {
        index->models = list_of(index, "models");
        index->plans = list_of(index, "plans");
        index->binaries = list_of(index, "binaries");
        if (index->models && index->plans && index->binaries) return FF_OK;
    }
    ff_json_free(&index->document);
    return ff_fail(error, FF_FILE,
                   "the file is damaged: its index is invalid; prepare the model again");
}

const char *ff_index_model(const ff_index *index, size_t number) {
    const ff_json *item = ff_json_first(&index->document, index->models);
    while (item != NULL && number-- > 0) item = ff_json_next(&index->document, item);
    return item == NULL ? NULL : text(index, item, "name");
}

/* Returns whether a plan was compiled for this device with its current driver. */
static int is_same_device(const ff_index *index, const ff_json *row) {
    const ff_json *made_for = get(index, row, "made_for");
    const ff_device *device = index->device;
    int64_t units;
    return strcmp(text(index, made_for, "api"), "opencl") == 0 &&
           strcmp(text(index, made_for, "name"), device->name) == 0 &&
           strcmp(text(index, made_for, "platform"), device->platform) == 0 &&
           strcmp(text(index, made_for, "driver"), device->driver) == 0 &&
           strcmp(text(index, made_for, "version"), device->version) == 0 &&
           ff_json_integer(get(index, made_for, "compute_units"), 0, UINT32_MAX, &units) &&
           units == (int64_t)device->compute_units;
}

const ff_json *ff_index_fact(const ff_index *index, const char *name) {
    const ff_json *row =
        index->ignores_facts ? NULL : ff_json_first(&index->document, index->plans);
    for (; row != NULL; row = ff_json_next(&index->document, row)) {
        const ff_json *fact = get(index, get(index, row, "facts"), name);
        if (fact != NULL && is_same_device(index, row)) return fact;
    }
    return NULL;
}

int ff_index_is_true(const ff_index *index, const char *name) {
    const ff_json *fact = ff_index_fact(index, name);
    return fact != NULL && fact->kind == FF_JSON_TRUE;
}

/* Returns whether a dotted version number is at most another one. */
static int is_at_most(const char *version, const char *limit) {
    while (*version != 0) {
        char *after, *other;
        unsigned long own_part = strtoul(version, &after, 10),
                      limit_part = strtoul(limit, &other, 10);
        if (after == version || (*after != 0 && *after != '.')) return 0;
        if (own_part != limit_part) return own_part < limit_part;
        version = after + (*after == '.');
        limit = other + (*other == '.');
    }
    return 1;
}

/* Returns whether each image fits as a whole, or as a window around the texels that are read. */
static int has_images(const ff_index *index, const ff_json *images) {
    const ff_json_document *document = &index->document;
    const ff_json *item = ff_json_first(document, images);
    int64_t known, needed[3];
    if (!ff_json_integer(ff_index_fact(index, "image_texels"), 0, INT64_MAX, &known)) known = 0;
    for (; item != NULL; item = ff_json_next(document, item)) {
        const ff_json *number = ff_json_first(document, item);
        for (int i = 0; i < 3; i++, number = ff_json_next(document, number)) {
            if (!ff_json_integer(number, 1, INT64_C(1) << 40, &needed[i])) return 0;
        }
        needed[1] += (int64_t)index->device->alignment / needed[2];
        if (ff_index_is_true(index, "image_windows") && needed[1] < needed[0])
            needed[0] = needed[1];
        if (needed[0] > known) return 0;
    }
    return images->kind == FF_JSON_LIST;
}

static int has_text_fact(const ff_index *index, const char *fact, const char *requested) {
    const char *known = ff_json_text(ff_index_fact(index, fact));
    return requested != NULL &&
           (*requested == 0 || (known != NULL && strcmp(requested, known) == 0));
}

/* Returns whether the device meets one requirement of a plan. Unknown facts count as absent. */
static int meets_requirement(const ff_index *index, const char *name, const ff_json *value) {
    const ff_device *device = index->device;
    const struct {
        const char *name;
        uint64_t limit;
    } sizes[] = {
        {"address_bits", device->address_bits}, {"work_group", device->max_work_group},
        {"local_memory", device->local_memory}, {"buffer_bytes", device->max_allocation},
        {"alignment", device->alignment},       {"resident_groups", device->compute_units}};
    static const char *const flags[] = {"half_arithmetic", "matrix_units", "forward_progress",
                                        "reaches_host"};
    const char *words = ff_json_text(value);
    int64_t size;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(name, sizes[i].name) != 0) continue;
        if (!ff_json_integer(value, 0, INT64_MAX, &size) || (uint64_t)size > sizes[i].limit)
            return 0;
        return size == 0 || strcmp(name, "resident_groups") || ff_index_is_true(index, "resident");
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(name, flags[i]) != 0) continue;
        return value->kind == FF_JSON_FALSE ||
               (value->kind == FF_JSON_TRUE && ff_index_is_true(index, name));
    }
    if (strcmp(name, "language") == 0) return words != NULL && strcmp(words, "opencl") == 0;
    if (strcmp(name, "language_version") == 0) {
        return words != NULL && is_at_most(words, device->language_version);
    }
    if (strcmp(name, "subgroups") == 0 || strcmp(name, "dot_products") == 0) {
        return has_text_fact(index, name, words);
    }
    if (strcmp(name, "packs_bytes") == 0) {
        return value->kind == FF_JSON_FALSE || has_text_fact(index, "dot_products", "x86");
    }
    return strcmp(name, "images") == 0 && has_images(index, value);
}

/* Returns the first requirement of a plan that the device does not meet; NULL if it meets all. */
static const char *find_unmet(const ff_index *index, const ff_json *row) {
    const ff_json *needed = get(index, row, "requirements");
    const ff_json *name = ff_json_first(&index->document, needed);
    if (needed == NULL || !get(index, needed, "language_version")) return "language_version";
    if (!get(index, needed, "language")) return "language";
    while (name != NULL) {
        const ff_json *value = ff_json_next(&index->document, name);
        if (!meets_requirement(index, name->value.text, value)) return name->value.text;
        name = ff_json_next(&index->document, value);
    }
    return NULL;
}

/* How the device that a plan was compiled for relates to this one: an index into its ranks. */
typedef enum relation { SAME_DEVICE, SAME_KIND, LARGER_DEVICE, OTHER_KIND } relation;

static relation relation_of(const ff_index *index, const ff_json *row) {
    const ff_json *made_for = get(index, row, "made_for");
    int64_t units = 0;
    if (strcmp(text(index, made_for, "name"), index->device->name) == 0 &&
        strcmp(text(index, made_for, "platform"), index->device->platform) == 0) {
        return SAME_DEVICE;
    }
    if (strcmp(text(index, made_for, "kind"), index->device->kind) != 0) return OTHER_KIND;
    if (!ff_json_integer(get(index, row, "most_units"), 0, INT64_MAX, &units)) units = 0;
    return units >= (int64_t)index->device->compute_units ? SAME_KIND : LARGER_DEVICE;
}

/* Returns the rank of a plan for this device; among plans of equal rank fp32 wins. */
static int64_t rank_of(const ff_index *index, const ff_json *row) {
    const ff_json *item = ff_json_first(&index->document, get(index, row, "ranks"));
    int64_t rank;
    for (int i = (int)relation_of(index, row); item != NULL && i > 0; i--) {
        item = ff_json_next(&index->document, item);
    }
    if (!ff_json_integer(item, 0, INT32_MAX, &rank)) rank = INT32_MAX;
    return 2 * rank + (strcmp(text(index, row, "precision"), "fp32") != 0);
}

/* Returns whether a plan runs entirely on the device, without a CPU engine. */
static int is_whole(const ff_index *index, const ff_json *row) {
    const ff_json *parts = get(index, row, "parts");
    const char *target = ff_json_text(ff_json_first(&index->document, parts));
    return parts != NULL && parts->count == 1 && target != NULL && strcmp(target, "gpu") == 0;
}

/* Returns the value to select by if the caller names none: "" if a row has it or rows differ,
 * else the value that all rows share. */
static const char *default_value(const ff_index *index, const ff_json **rows, size_t count,
                                 const char *name, const char *requested) {
    const char *shared = NULL;
    if (requested != NULL && *requested != 0) return requested;
    for (size_t i = 0; i < count; i++) {
        const char *value = text(index, rows[i], name);
        if (*value == 0) return value;
        if (shared != NULL && strcmp(shared, value) != 0) return ""; /* rows differ */
        shared = value;
    }
    return shared == NULL ? "" : shared;
}

/* Moves the rows with the selected value to the front, and returns their number. */
static size_t filter_by_text(const ff_index *index, const ff_json **rows, size_t count,
                             const char *name, const char *requested) {
    const char *words = default_value(index, rows, count, name, requested);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text(index, rows[i], name), words) == 0) rows[kept++] = rows[i];
    }
    return kept;
}

/* Returns whether a plan takes such pixels: those of its only image input, or "name: pixels; ...".
 */
static int takes_pixels(const ff_index *index, const ff_json *row, const char *requested) {
    const ff_json *pixels = get(index, row, "pixels"), *name, *words;
    size_t matches = 0, size = 0, count = pixels == NULL ? 0 : pixels->count;
    if (requested == NULL || *requested == 0 || (strcmp(requested, "auto") == 0 && count > 0))
        return 1;
    for (name = ff_json_first(&index->document, pixels); name != NULL;
         name = ff_json_next(&index->document, words)) {
        char both[512];
        words = ff_json_next(&index->document, name);
        if (ff_json_text(words) == NULL) return 0;
        if (count == 1 && strcmp(requested, words->value.text) == 0) return 1;
        snprintf(both, sizeof both, "%s: %s", name->value.text, words->value.text);
        matches += strstr(requested, both) != NULL;
        size += strlen(both) + 2; /* and the separator behind it */
    }
    return count > 0 && matches == count && size == strlen(requested) + 2;
}

/* Returns whether a plan was compiled for shapes such as "image=1,320,320,3;mask=1,4". */
static int has_shapes(const ff_index *index, const ff_json *row, const char *requested) {
    const ff_json *shapes = get(index, row, "shapes"), *name, *sizes;
    size_t items = 1, matches = 0;
    if (requested == NULL || *requested == 0) return 1;
    for (const char *at = requested; *at != 0; at++) items += *at == ';';
    for (name = ff_json_first(&index->document, shapes); name != NULL;
         name = ff_json_next(&index->document, sizes)) {
        char item[512];
        const char *at;
        size_t used = (size_t)snprintf(item, sizeof item, "%s", name->value.text), size;
        sizes = ff_json_next(&index->document, name);
        for (const ff_json *size_item = ff_json_first(&index->document, sizes); size_item != NULL;
             size_item = ff_json_next(&index->document, size_item)) {
            int64_t value;
            if (used >= sizeof item || !ff_json_integer(size_item, 0, INT64_MAX, &value)) return 0;
            used += (size_t)snprintf(
                item + used, sizeof item - used, "%c%lld",
                size_item == ff_json_first(&index->document, sizes) ? '=' : ',', (long long)value);
        }
        at = used < sizeof item ? strstr(requested, item) : NULL;
        size = strlen(item);
        matches +=
            at != NULL && (at == requested || at[-1] == ';') && (at[size] == 0 || at[size] == ';');
    }
    return matches == items && shapes != NULL && shapes->count == items;
}

static ff_status choose_model(const ff_index *index, const char *requested, size_t *model,
                              ff_error *error) {
    const char *name = ff_index_model(index, 0);
    size_t count = index->models->count;
    *model = 0;
    if (requested == NULL && count == 1) return FF_OK;
    while (name != NULL && (requested == NULL || strcmp(name, requested) != 0)) {
        name = ff_index_model(index, ++*model);
    }
    if (name != NULL) return FF_OK;
    return ff_fail(error, FF_ARGUMENT, "none of the %llu models of the file is named '%s'",
                   (unsigned long long)count, requested == NULL ? "" : requested);
}

/* Collects the plans of a model that match the options, and returns their number. */
static size_t fitting_rows(const ff_index *index, const ff_options *options, size_t model,
                           const ff_json **rows) {
    const char *precision = options->precision;
    size_t count = 0, kept = 0;
    const ff_json *row = ff_json_first(&index->document, index->plans);
    for (; row != NULL; row = ff_json_next(&index->document, row)) {
        int64_t own;
        if (ff_json_integer(get(index, row, "model"), 0, INT32_MAX, &own) && (size_t)own == model &&
            is_whole(index, row)) {
            rows[count++] = row;
        }
    }
    count = filter_by_text(index, rows, count, "signature", options->signature);
    for (size_t i = 0; i < count; i++) {
        if (takes_pixels(index, rows[i], options->pixels)) rows[kept++] = rows[i];
    }
    count = filter_by_text(index, rows, kept, "postprocess", options->postprocess);
    kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (precision != NULL && strcmp(text(index, rows[i], "precision"), precision)) continue;
        if (has_shapes(index, rows[i], options->shapes)) rows[kept++] = rows[i];
    }
    return kept;
}

static ff_status fail_without_plan(const ff_index *index, size_t model, size_t count,
                                   const char *why, ff_error *error) {
    const char *name = ff_index_model(index, model);
    const ff_json *row = ff_json_first(&index->document, index->plans);
    if (count > 0) {
        return ff_fail(
            error, FF_PLAN,
            "no plan of '%s' can run on %s, which lacks '%s'; prepare it for this device", name,
            index->device->name, why);
    }
    for (; row != NULL; row = ff_json_next(&index->document, row)) {
        int64_t own;
        if (ff_json_integer(get(index, row, "model"), 0, INT32_MAX, &own) && (size_t)own == model &&
            !is_whole(index, row)) {
            return ff_fail(
                error, FF_PLAN,
                "'%s' runs some layers in a CPU engine, which requires the Python package", name);
        }
    }
    return ff_fail(error, FF_ARGUMENT,
                   "no plan of '%s' matches the options; prepare it with these options", name);
}

ff_status ff_index_choose(const ff_index *index, const ff_options *options, ff_choice *choice,
                          ff_error *error) {
    const ff_json **rows = calloc(index->plans->count + 1, sizeof *rows), *row;
    const char *why = "";
    size_t count;
    int64_t best = -1;
    ff_status status = rows == NULL ? ff_no_memory(error) : FF_OK;
    if (status == FF_OK) status = choose_model(index, options->model, &choice->model, error);
    choice->row = NULL;
    choice->number = 0;
    if (status == FF_OK) {
        count = fitting_rows(index, options, choice->model, rows);
        for (size_t i = 0; i < count; i++) {
            const char *missing = find_unmet(index, rows[i]);
            int64_t rank = rank_of(index, rows[i]);
            if (missing != NULL) why = missing;
            if (missing != NULL || (best >= 0 && rank >= best)) continue;
            best = rank;
            choice->row = rows[i];
        }
        if (best < 0) status = fail_without_plan(index, choice->model, count, why, error);
    }
    row = ff_json_first(&index->document, index->plans);
    for (; status == FF_OK && row != choice->row; row = ff_json_next(&index->document, row)) {
        choice->number++;
    }
    free(rows);
    return status;
}
