/* Steps that a tool asks for one by one while a model is open: its memory, launches and times.
 *
 * Tuning and trials need more than whole runs: parts of a plan's memory are written and read, some
 * of its launches run and timed. A step is a line, and so is its answer. */
#include "steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../container.h"
#include "../model.h"
#include "report.h"

enum { LINE_ROOM = 4096, MOST_WORDS = 6, MOST_TIMES = 10000 };

typedef struct opened {
    ff_model *model;
    ff_info info;
    void **inputs, **outputs; /* arrays of whole runs */
    uint8_t *kept;            /* what is compared with */
    size_t kept_size;
    ff_cl timed; /* a queue that notes times */
} opened;

typedef struct step {
    char *words[MOST_WORDS];
    size_t count;
    uint64_t numbers[MOST_WORDS]; /* of words that are such */
} step;

/* A part of a buffer of the plan, by the first three numbers behind the step's name. */
typedef struct part {
    ff_cl buffer;
    size_t offset, size;
} part;

typedef ff_status action(opened *open, const step *step, ff_line *answer, ff_error *error);

static ff_status find_part(const opened *open, const step *step, part *found, uint64_t size,
                           ff_error *error) {
    const ff_plan *plan = &open->model->plan;
    uint64_t number = step->numbers[1], offset = step->numbers[2], room;
    if (number >= plan->buffer_count) return ff_fail(error, FF_ARGUMENT, "there is no such buffer");
    room = plan->buffers[number].allocated;
    if (size == 0 || offset > room || size > room - offset) {
        return ff_fail(error, FF_ARGUMENT, "the buffer has %llu bytes, and %llu from %llu on are asked for",
                       (unsigned long long)room, (unsigned long long)size,
                       (unsigned long long)offset);
    }
    found->buffer = open->model->buffers[number];
    found->offset = (size_t)offset;
    found->size = (size_t)size;
    return FF_OK;
}

static ff_status write_part(opened *open, const part *to, const void *bytes, ff_error *error) {
    int32_t status = open->model->player->cl.EnqueueWriteBuffer(
        open->model->queue, to->buffer, 1, to->offset, to->size, bytes, 0, NULL, NULL);
    return status == 0 ? FF_OK : ff_opencl_fail(error, "writing a buffer", status);
}

/* The bytes of a part, to be freed; NULL where that fails. */
static uint8_t *read_part(opened *open, const part *from, ff_error *error) {
    uint8_t *bytes = malloc(from->size);
    int32_t status;
    if (bytes == NULL) {
        ff_no_memory(error);
        return NULL;
    }
    status = open->model->player->cl.EnqueueReadBuffer(
        open->model->queue, from->buffer, 1, from->offset, from->size, bytes, 0, NULL, NULL);
    if (status == 0) return bytes;
    ff_opencl_fail(error, "reading a buffer", status);
    free(bytes);
    return NULL;
}

static ff_status append(const char *path, const void *bytes, size_t size, ff_error *error) {
    FILE *file = fopen(path, "ab");
    size_t written = file == NULL ? 0 : fwrite(bytes, 1, size, file);
    int closed = file == NULL ? -1 : fclose(file);
    if (written == size && closed == 0) return FF_OK;
    return ff_fail(error, FF_FILE, "'%s' cannot be written: no space left on device, or no right to", path);
}

/* fill BUFFER OFFSET PATH */
static ff_status fill(opened *open, const step *step, ff_line *answer, ff_error *error) {
    const uint8_t *bytes;
    size_t size;
    char why[200];
    part to;
    ff_status status;
    (void)answer;
    if (!ff_map_file(step->words[3], &bytes, &size, why, sizeof why)) {
        return ff_fail(error, FF_FILE, "'%s' cannot be read: %s", step->words[3], why);
    }
    status = find_part(open, step, &to, size, error);
    if (status == FF_OK) status = write_part(open, &to, bytes, error);
    ff_unmap_file(bytes, size);
    return status;
}

/* blank BUFFER OFFSET BYTES: NaN as floats, and as halves */
static ff_status blank(opened *open, const step *step, ff_line *answer, ff_error *error) {
    static const uint8_t pattern[4] = {0xc0, 0x7f, 0xc0, 0x7f};
    part to;
    uint8_t *bytes;
    ff_status status = find_part(open, step, &to, step->numbers[3], error);
    (void)answer;
    if (status != FF_OK) return status;
    bytes = malloc(to.size);
    if (bytes == NULL) return ff_no_memory(error);
    for (size_t i = 0; i < to.size; i++) bytes[i] = pattern[i % 4];
    status = write_part(open, &to, bytes, error);
    free(bytes);
    return status;
}

/* read BUFFER OFFSET BYTES PATH */
static ff_status read(opened *open, const step *step, ff_line *answer, ff_error *error) {
    part from;
    uint8_t *bytes;
    ff_status status = find_part(open, step, &from, step->numbers[3], error);
    (void)answer;
    if (status != FF_OK) return status;
    bytes = read_part(open, &from, error);
    if (bytes == NULL) return error->status;
    status = append(step->words[4], bytes, from.size, error);
    free(bytes);
    return status;
}

/* keep BUFFER OFFSET BYTES */
static ff_status keep(opened *open, const step *step, ff_line *answer, ff_error *error) {
    part from;
    ff_status status = find_part(open, step, &from, step->numbers[3], error);
    (void)answer;
    if (status != FF_OK) return status;
    free(open->kept);
    open->kept = read_part(open, &from, error);
    open->kept_size = open->kept == NULL ? 0 : from.size;
    return open->kept == NULL ? error->status : FF_OK;
}

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

/* An element as a number. Sizes are powers of two, and all machines here are little-endian. */
static double element(const uint8_t *bytes, char kind, size_t size, size_t index) {
    uint64_t bits = 0;
    float single;
    double wide;
    memcpy(&bits, bytes + size * index, size);
    if (kind == 'u') return (double)bits;
    if (kind == 'i') return (double)((int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size));
    if (size == 2) return half((uint16_t)bits);
    if (size == 4) return memcpy(&single, bytes + 4 * index, 4), (double)single;
    return memcpy(&wide, bytes + 8 * index, 8), wide;
}

/* The kind and the bytes of a type such as "f32"; 0 where it is none. */
static size_t read_type(const char *type, char *kind) {
    unsigned long bits = strcmp(type, "bool") == 0 ? 8 : strtoul(type + 1, NULL, 10);
    *kind = *type == 'b' ? 'u' : *type;
    if (strchr("fiu", *kind) == NULL || *kind == 0 || (*kind == 'f' && bits == 8)) return 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

/* compare BUFFER OFFSET BYTES TYPE, with what was kept */
static ff_status compare(opened *open, const step *step, ff_line *answer, ff_error *error) {
    char kind;
    size_t size = read_type(step->words[4], &kind);
    double largest = 0, scale = 0;
    int in_nans = 0;
    part from;
    uint8_t *bytes;
    ff_status status = find_part(open, step, &from, step->numbers[3], error);
    if (status != FF_OK) return status;
    if (size == 0) return ff_fail(error, FF_ARGUMENT, "there is no type '%s'", step->words[4]);
    if (from.size != open->kept_size) {
        return ff_fail(error, FF_ARGUMENT, "other bytes were kept than are compared");
    }
    bytes = read_part(open, &from, error);
    if (bytes == NULL) return error->status;
    for (size_t i = 0; i < from.size / size; i++) {
        double wanted = element(open->kept, kind, size, i), found = element(bytes, kind, size, i);
        if (!isfinite(wanted)) {
            in_nans = in_nans || !(found == wanted || (isnan(found) && isnan(wanted)));
        } else if (!isfinite(found)) {
            in_nans = 1;
        } else {
            largest = fmax(largest, fabs(found - wanted));
            scale = fmax(scale, fabs(wanted));
        }
    }
    free(bytes);
    ff_add(answer, "{\"nan_differs\": %s, \"largest\": %.9g, \"scale\": %.9g}",
           in_nans ? "true" : "false", largest, scale);
    return FF_OK;
}

/* Some launches once, on the queue that notes times; `seconds` becomes less where they are. */
static int32_t time_once(opened *open, size_t first, size_t count, ff_cl *events, double *seconds) {
    const ff_opencl *cl = &open->model->player->cl;
    uint64_t began = 0, ended = 0;
    size_t begun = 0;
    int32_t status = 0, finished;
    for (; begun < count; begun++) {
        const ff_plan_launch *one = &open->model->plan.launches[first + begun];
        status = cl->EnqueueNDRangeKernel(open->timed, open->model->kernels[first + begun], one->axes,
                                          NULL, one->grid, one->local, 0, NULL, &events[begun]);
        if (status != 0) break;
    }
    finished = cl->Finish(open->timed);
    if (status == 0) status = finished;
    if (status == 0) {
        status = cl->GetEventProfilingInfo(events[0], CL_STARTED, sizeof began, &began, NULL);
    }
    if (status == 0) {
        status = cl->GetEventProfilingInfo(events[count - 1], CL_ENDED, sizeof ended, &ended, NULL);
    }
    while (begun > 0) cl->ReleaseEvent(events[--begun]);
    if (status == 0) *seconds = fmin(*seconds, 1e-9 * (double)(ended - began));
    return status;
}

/* time FIRST COUNT RUNS */
static ff_status time_launches(opened *open, const step *step, ff_line *answer, ff_error *error) {
    const ff_player *player = open->model->player;
    uint64_t first = step->numbers[1], count = step->numbers[2], runs = step->numbers[3];
    double seconds = HUGE_VAL;
    int32_t status = 0;
    ff_cl *events;
    if (count == 0 || first >= open->info.launches || count > open->info.launches - first) {
        return ff_fail(error, FF_ARGUMENT, "there are no such launches");
    }
    if (open->timed == NULL) {
        open->timed = player->cl.CreateCommandQueue(player->context, player->device->device,
                                                    CL_PROFILING, &status);
        if (status != 0) open->timed = NULL;
    }
    events = calloc((size_t)count, sizeof *events);
    if (events == NULL) return ff_no_memory(error);
    while (status == 0 && runs-- > 0) {
        status = time_once(open, (size_t)first, (size_t)count, events, &seconds);
    }
    free(events);
    if (status != 0) return ff_opencl_fail(error, "timing kernels", status);
    ff_add(answer, "{\"seconds\": %.9f}", seconds);
    return FF_OK;
}

/* run RUNS, replay RUNS: by the host's clock */
static ff_status time_runs(opened *open, const step *step, ff_line *answer, ff_error *error) {
    int replay = strcmp(step->words[0], "replay") == 0;
    uint64_t runs = step->numbers[1] < MOST_TIMES ? step->numbers[1] : MOST_TIMES;
    ff_status status = FF_OK;
    ff_add(answer, "{\"seconds\": [");
    for (uint64_t i = 0; status == FF_OK && i < runs; i++) {
        double began = ff_seconds();
        status = replay ? ff_replay(open->model, error)
                        : ff_run(open->model, (const void *const *)open->inputs, open->outputs, error);
        ff_add(answer, i ? ", %.9f" : "%.9f", ff_seconds() - began);
    }
    ff_add(answer, "]}");
    return status;
}

/* profile RUNS */
static ff_status profile(opened *open, const step *step, ff_line *answer, ff_error *error) {
    ff_launch *launches = calloc(open->info.launches + 1, sizeof *launches);
    ff_status status = launches == NULL ? ff_no_memory(error) : FF_OK;
    if (status == FF_OK) {
        status = ff_profile(open->model, (const void *const *)open->inputs, (size_t)step->numbers[1],
                            launches, NULL, error);
    }
    ff_add(answer, "{\"seconds\": [");
    for (size_t i = 0; status == FF_OK && i < open->info.launches; i++) {
        ff_add(answer, i ? ", %.9f" : "%.9f", launches[i].seconds);
    }
    ff_add(answer, "]}");
    free(launches);
    return status;
}

/* input NUMBER PATH: for the runs that follow */
static ff_status take_input(opened *open, const step *step, ff_line *answer, ff_error *error) {
    const ff_tensor *tensor = ff_input(open->model, (size_t)step->numbers[1]);
    const uint8_t *bytes;
    size_t size;
    char why[200];
    int fits;
    (void)answer;
    if (tensor == NULL) return ff_fail(error, FF_ARGUMENT, "there is no such input");
    if (!ff_map_file(step->words[2], &bytes, &size, why, sizeof why)) {
        return ff_fail(error, FF_FILE, "'%s' cannot be read: %s", step->words[2], why);
    }
    fits = size == tensor->bytes;
    if (fits) memcpy(open->inputs[step->numbers[1]], bytes, size);
    ff_unmap_file(bytes, size);
    return fits ? FF_OK : ff_fail(error, FF_ARGUMENT, "'%s' takes other bytes", tensor->name);
}

/* output NUMBER PATH: of the last run, behind what the file has */
static ff_status give_output(opened *open, const step *step, ff_line *answer, ff_error *error) {
    const ff_tensor *tensor = ff_output(open->model, (size_t)step->numbers[1]);
    (void)answer;
    if (tensor == NULL) return ff_fail(error, FF_ARGUMENT, "there is no such output");
    return append(step->words[2], open->outputs[step->numbers[1]], tensor->bytes, error);
}

/* forget PATH: a file that was read, or that has been fetched */
static ff_status forget(opened *open, const step *step, ff_line *answer, ff_error *error) {
    (void)open;
    (void)answer;
    if (remove(step->words[1]) == 0) return FF_OK;
    return ff_fail(error, FF_FILE, "'%s' cannot be removed", step->words[1]);
}

/* reset */
static ff_status reset(opened *open, const step *step, ff_line *answer, ff_error *error) {
    (void)step;
    (void)answer;
    return ff_reset(open->model, error);
}

/* binary FOLDER: an entry of a store; best after a run */
static ff_status save(opened *open, const step *step, ff_line *answer, ff_error *error) {
    char path[LINE_ROOM];
    ff_status status = ff_save_binary(open->model, step->words[1], path, sizeof path, error);
    if (status != FF_OK) return status;
    ff_add(answer, "{");
    ff_add_text(answer, "file", path);
    ff_add(answer, "}");
    return FF_OK;
}

static const struct {
    const char *name;
    action *act;
    size_t words, numbers; /* how many there are, and how many of them are numbers, name included */
} ACTIONS[] = {
    {"fill", fill, 4, 3},          {"blank", blank, 4, 4},    {"read", read, 5, 4},
    {"keep", keep, 4, 4},          {"compare", compare, 5, 4}, {"time", time_launches, 4, 4},
    {"run", time_runs, 2, 2},      {"replay", time_runs, 2, 2}, {"profile", profile, 2, 2},
    {"input", take_input, 3, 2},   {"output", give_output, 3, 2}, {"reset", reset, 1, 1},
    {"binary", save, 2, 1},        {"forget", forget, 2, 1},
};

static void split(step *found, char *line) {
    memset(found, 0, sizeof *found);
    for (char *word = strtok(line, " \r\n"); word != NULL && found->count < MOST_WORDS;
         word = strtok(NULL, " \r\n")) {
        found->numbers[found->count] = strtoull(word, NULL, 10);
        found->words[found->count++] = word;
    }
}

static ff_status act(opened *open, const step *step, ff_line *answer, ff_error *error) {
    for (size_t i = 0; i < sizeof ACTIONS / sizeof *ACTIONS; i++) {
        if (strcmp(step->words[0], ACTIONS[i].name) != 0) continue;
        if (step->count != ACTIONS[i].words) break;
        for (size_t j = 1; j < ACTIONS[i].numbers; j++) {
            if (step->words[j][strspn(step->words[j], "0123456789")] != 0) {
                return ff_fail(error, FF_ARGUMENT, "'%s' is no number", step->words[j]);
            }
        }
        return ACTIONS[i].act(open, step, answer, error);
    }
    return ff_fail(error, FF_ARGUMENT, "there is no such step as '%s' with %u words", step->words[0],
                   (unsigned)step->count);
}

static void answer_all(opened *open, FILE *steps) {
    char line[LINE_ROOM];
    while (fgets(line, sizeof line, steps) != NULL) {
        ff_error error = {FF_OK, ""};
        ff_line answer = {0};
        step one;
        split(&one, line);
        if (one.count == 0) continue;
        if (act(open, &one, &answer, &error) != FF_OK) {
            ff_tell_error(NULL, 0, &error, 1);
        } else {
            if (answer.used == 0) ff_add(&answer, "{\"ok\": true}");
            ff_tell(&answer);
        }
        free(answer.text);
    }
}

static ff_status make_arrays(opened *open, ff_error *error) {
    open->inputs = calloc(open->info.inputs + 1, sizeof *open->inputs);
    open->outputs = calloc(open->info.outputs + 1, sizeof *open->outputs);
    if (open->inputs == NULL || open->outputs == NULL) return ff_no_memory(error);
    for (size_t i = 0; i < open->info.inputs; i++) {
        open->inputs[i] = calloc(ff_input(open->model, i)->bytes + 1, 1);
        if (open->inputs[i] == NULL) return ff_no_memory(error);
    }
    for (size_t i = 0; i < open->info.outputs; i++) {
        open->outputs[i] = calloc(ff_output(open->model, i)->bytes + 1, 1);
        if (open->outputs[i] == NULL) return ff_no_memory(error);
    }
    return FF_OK;
}

ff_status ff_do_steps(ff_player *player, const ff_options *options, FILE *steps, ff_error *error) {
    opened open = {0};
    ff_status status = FF_OK;
    open.model = ff_load(player, options, error);
    if (open.model == NULL) return error->status;
    open.info = ff_model_info(open.model);
    status = make_arrays(&open, error);
    if (status == FF_OK) {
        ff_line line = {0};
        ff_add(&line, "{\"opened\": {\"open\": %.9f, \"build\": %.9f, \"program\": \"%s\"}}",
               open.info.open_seconds, open.info.build_seconds, open.info.program);
        ff_tell(&line);
        free(line.text);
        answer_all(&open, steps);
    }
    for (size_t i = 0; open.inputs != NULL && i < open.info.inputs; i++) free(open.inputs[i]);
    for (size_t i = 0; open.outputs != NULL && i < open.info.outputs; i++) free(open.outputs[i]);
    free(open.inputs);
    free(open.outputs);
    free(open.kept);
    if (open.timed != NULL) player->cl.ReleaseCommandQueue(open.timed);
    ff_unload(open.model);
    return status;
}
