/* fourfold-run: plays models of a prepared file, times them, and tells what devices there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../container.h"
#include "../platform.h"
#include "arrays.h"
#include "report.h"
#include "steps.h"

enum {
    GOOD,
    FAILED,
    WRONG_USE,
    NO_DEVICE,
    MOST_INPUTS = 256,
    MOST_RUNS = 100000,
    PATH_ROOM = 4096
};

static const char USAGE[] =
    "usage: fourfold-run MODEL.fourfold [options]\n"
    "       fourfold-run --probe [--json]\n\n"
    "Plays every model of a prepared file, or one.\n\n"
    "  --model NAME            only the model of this name\n"
    "  --device N              the device of this number, or of this name\n"
    "  --input [NAME=]FILE     the next input, or that of this name: .npy or raw bytes\n"
    "  --inputs FOLDER         inputs of all models: FOLDER/MODEL.INPUT.npy, by number\n"
    "  --output FOLDER         write outputs as FOLDER/MODEL.OUTPUT.npy\n"
    "  --runs N                play so many times before outputs are taken\n"
    "  --bench, --profile      time whole runs; time each launch by the device's clock\n"
    "  --seconds S             how long each of them measures a model\n"
    "  --precision P           only plans in fp32, mixed or fp16\n"
    "  --signature S, --postprocess P, --pixels P, --shapes S\n"
    "                          only plans that were prepared so\n"
    "  --cache FOLDER          keep binaries of what had to be built\n"
    "  --save-binaries FOLDER  write the binary of each plan that was played\n"
    "  --steps FILE            do single steps of one model, from a file or '-': see the docs\n"
    "  --probe                 tell what the OpenCL drivers say of each device\n"
    "  --json                  one JSON object a line\n"
    "  --help, --version\n\n"
    "Exit status: 0 done, 1 something failed, 2 wrong use, 3 no OpenCL device.\n";

typedef struct request {
    const char *file, *device, *inputs, *output, *binaries, *steps;
    const char *input[MOST_INPUTS];
    size_t input_count, runs;
    double seconds;
    int bench, profile, probe, json, help, version;
    ff_options options;
} request;

/* A model that is played, and the arrays that go in and out. */
typedef struct run {
    const request *how;
    ff_model *model;
    ff_info info;
    void **inputs, **outputs;
    uint8_t *made_up;
    ff_line line;
} run;

static int read_value(request *how, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"--model", &how->options.model},
                 {"--device", &how->device},
                 {"--inputs", &how->inputs},
                 {"--output", &how->output},
                 {"--precision", &how->options.precision},
                 {"--signature", &how->options.signature},
                 {"--postprocess", &how->options.postprocess},
                 {"--pixels", &how->options.pixels},
                 {"--shapes", &how->options.shapes},
                 {"--cache", &how->options.cache},
                 {"--save-binaries", &how->binaries},
                 {"--steps", &how->steps}};
    char *end = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(name, texts[i].name) == 0) *texts[i].to = value;
        if (strcmp(name, texts[i].name) == 0) return 1;
    }
    if (strcmp(name, "--input") == 0 && how->input_count < MOST_INPUTS) {
        how->input[how->input_count++] = value;
        return 1;
    }
    if (strcmp(name, "--runs") == 0) how->runs = (size_t)strtoul(value, &end, 10);
    if (strcmp(name, "--seconds") == 0) how->seconds = strtod(value, &end);
    return end != NULL && *end == 0 && how->runs > 0 && how->runs < 1u << 30 && how->seconds >= 0;
}

static int read_arguments(request *how, int count, char **arguments) {
    const struct {
        const char *name;
        int *to;
    } flags[] = {{"--bench", &how->bench},    {"--profile", &how->profile},
                 {"--probe", &how->probe},    {"--json", &how->json},
                 {"--help", &how->help},      {"-h", &how->help},
                 {"--version", &how->version}};
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        size_t flag = 0, most = sizeof flags / sizeof *flags;
        while (flag < most && strcmp(name, flags[flag].name) != 0) flag++;
        if (flag < most) {
            *flags[flag].to = 1;
        } else if (name[0] != '-' && how->file == NULL) {
            how->file = name;
        } else if (i + 1 == count || name[0] != '-' || !read_value(how, name, arguments[++i])) {
            fprintf(stderr, "fourfold-run: '%s' is not understood; see --help\n", name);
            return 0;
        }
    }
    if (how->file != NULL || how->probe || how->help || how->version) return 1;
    fprintf(stderr, "%s", USAGE);
    return 0;
}

static int probe(const request *how) {
    ff_device *devices;
    size_t count;
    ff_error error;
    if (ff_devices(&devices, &count, &error) != FF_OK) {
        ff_tell_error(NULL, 0, &error, how->json);
        return NO_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        const ff_device *one = &devices[i];
        ff_line line = {0};
        if (how->json) ff_add_device(&line, one);
        else
            ff_add(&line, "%u: %s (%s, driver %s), %s of %u units, %llu MiB", one->number,
                   one->name, one->platform, one->driver, one->kind, one->compute_units,
                   (unsigned long long)(one->memory >> 20));
        ff_tell(&line);
    }
    ff_free_devices(devices, count);
    return GOOD;
}

/* The file of an input: by name, by its place among those without one, or in the folder. */
static const char *find_input(const run *one, size_t number, char room[PATH_ROOM]) {
    const request *how = one->how;
    const char *name = ff_input(one->model, number)->name;
    size_t size = strlen(name), place = 0;
    for (size_t i = 0; i < how->input_count; i++) {
        const char *given = how->input[i];
        int named = 0;
        for (size_t j = 0; j < one->info.inputs; j++) {
            const char *other = ff_input(one->model, j)->name;
            named =
                named || (strncmp(given, other, strlen(other)) == 0 && given[strlen(other)] == '=');
        }
        if (named && strncmp(given, name, size) == 0 && given[size] == '=') return given + size + 1;
        if (!named && place++ == number) return given;
    }
    if (how->inputs == NULL) return NULL;
    snprintf(room, PATH_ROOM, "%s/%llu.%llu.npy", how->inputs, (unsigned long long)one->info.number,
             (unsigned long long)number);
    return ff_file_exists(room) ? room : NULL;
}

static ff_status make_arrays(run *one, ff_error *error) {
    char room[PATH_ROOM];
    one->inputs = calloc(one->info.inputs + 1, sizeof *one->inputs);
    one->outputs = calloc(one->info.outputs + 1, sizeof *one->outputs);
    one->made_up = calloc(one->info.inputs + 1, 1);
    if (!one->inputs || !one->outputs || !one->made_up) return ff_no_memory(error);
    for (size_t i = 0; i < one->info.inputs; i++) {
        const ff_tensor *tensor = ff_input(one->model, i);
        const char *path = find_input(one, i, room);
        one->made_up[i] = path == NULL;
        one->inputs[i] =
            path == NULL ? ff_make_up_array(tensor, error) : ff_read_array(path, tensor, error);
        if (one->inputs[i] == NULL) return error->status;
    }
    for (size_t i = 0; i < one->info.outputs; i++) {
        one->outputs[i] = calloc(ff_output(one->model, i)->bytes + 1, 1);
        if (one->outputs[i] == NULL) return ff_no_memory(error);
    }
    return FF_OK;
}

static ff_status play(run *one, ff_error *error) {
    return ff_run(one->model, (const void *const *)one->inputs, one->outputs, error);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times runs or replays for some seconds, three at least. */
static ff_status measure(run *one, int replay, ff_error *error) {
    double *times = malloc(MOST_RUNS * sizeof *times), began = ff_seconds(), sum = 0;
    const char *word = replay ? "replay_" : "";
    ff_status status = times == NULL ? ff_no_memory(error) : FF_OK;
    size_t count = 0;
    while (status == FF_OK && count < MOST_RUNS &&
           (count < 3 || ff_seconds() - began < one->how->seconds / 2)) {
        double start = ff_seconds();
        status = replay ? ff_replay(one->model, error) : play(one, error);
        times[count] = ff_seconds() - start;
        sum += times[count++];
    }
    if (status == FF_OK) {
        qsort(times, count, sizeof *times, compare);
        ff_add(&one->line, "\"%sruns\": %llu, \"%sbest\": %.9f, \"%smedian\": %.9f", word,
               (unsigned long long)count, word, times[0], word, times[count / 2]);
        if (!replay) ff_add(&one->line, ", \"mean\": %.9f, ", sum / (double)count);
        if (!one->how->json) {
            printf("  %s: best %.3f ms, median %.3f ms of %llu\n", replay ? "replay" : "run",
                   1e3 * times[0], 1e3 * times[count / 2], (unsigned long long)count);
        }
    }
    free(times);
    return status;
}

static ff_status bench(run *one, ff_error *error) {
    ff_status status;
    ff_add(&one->line, ", \"bench\": {");
    status = measure(one, 0, error);
    if (status == FF_OK) status = measure(one, 1, error);
    ff_add(&one->line, "}");
    return status;
}

static ff_status profile(run *one, ff_error *error) {
    ff_launch *launches = calloc(one->info.launches + 1, sizeof *launches);
    const void *const *inputs = (const void *const *)one->inputs;
    double span = 0, began = ff_seconds(), each;
    size_t runs = 3;
    ff_status status = launches == NULL ? ff_no_memory(error) : FF_OK;
    if (status == FF_OK) status = ff_profile(one->model, inputs, runs, launches, &span, error);
    each = (ff_seconds() - began) / (double)runs;
    if (status == FF_OK && each * (double)runs < one->how->seconds) {
        runs = (size_t)(one->how->seconds / each) + 1;
        runs = runs < 1000 ? runs : 1000;
        status = ff_profile(one->model, inputs, runs, launches, &span, error);
    }
    if (status == FF_OK) {
        ff_add(&one->line, ", \"profile\": {\"runs\": %llu, \"span\": %.9f, \"launches\": [",
               (unsigned long long)runs, span);
        for (size_t i = 0; i < one->info.launches; i++) {
            ff_add(&one->line, i ? ", {" : "{");
            ff_add_text(&one->line, "entry", launches[i].entry);
            ff_add(&one->line, ", ");
            ff_add_text(&one->line, "title", launches[i].title);
            ff_add(&one->line, ", ");
            ff_add_text(&one->line, "node", launches[i].node);
            ff_add(&one->line, ", \"seconds\": %.9f}", launches[i].seconds);
            if (one->how->json) continue;
            printf("  %9.3f us  %s  %.60s\n", 1e6 * launches[i].seconds, launches[i].title,
                   launches[i].node);
        }
        ff_add(&one->line, "]}");
    }
    free(launches);
    return status;
}

static ff_status save_binary(run *one, ff_error *error) {
    char path[PATH_ROOM];
    const uint8_t *bytes;
    size_t size = 0;
    ff_status status = ff_save_binary(one->model, one->how->binaries, path, sizeof path, error);
    if (status != FF_OK) return status;
    if (ff_map_file(path, &bytes, &size, NULL, 0)) ff_unmap_file(bytes, size);
    ff_add(&one->line, ", \"binary\": {");
    ff_add_text(&one->line, "file", path);
    ff_add(&one->line, ", \"bytes\": %llu}", (unsigned long long)size);
    return FF_OK;
}

static void describe(run *one, uint32_t device) {
    const ff_info *info = &one->info;
    ff_add(&one->line, "{");
    ff_add_text(&one->line, "model", info->name);
    ff_add(&one->line, ", \"number\": %llu, \"device\": %u, ", (unsigned long long)info->number,
           device);
    ff_add_text(&one->line, "made_for", info->made_for);
    ff_add(&one->line, ", \"plan\": %llu, ", (unsigned long long)info->plan);
    ff_add_text(&one->line, "precision", info->precision);
    ff_add(&one->line, ", \"program\": \"%s\", \"launches\": %llu, \"stages\": %llu", info->program,
           (unsigned long long)info->launches, (unsigned long long)info->stages);
    ff_add(&one->line, ", \"device_bytes\": %llu, \"inputs\": [",
           (unsigned long long)info->device_bytes);
    for (size_t i = 0; i < info->inputs; i++) {
        if (i) ff_add(&one->line, ", ");
        ff_add_tensor(&one->line, ff_input(one->model, i));
        ff_add(&one->line, ", ");
        ff_add_text(&one->line, "pixels", ff_input(one->model, i)->pixels);
        ff_add(&one->line, ", \"made_up\": %s}", one->made_up[i] ? "true" : "false");
    }
    ff_add(&one->line, "], \"outputs\": [");
}

/* Writes outputs, and tells of them. */
static ff_status write_outputs(run *one, ff_error *error) {
    ff_status status = FF_OK;
    if (one->how->output != NULL) ff_make_folder(one->how->output);
    for (size_t i = 0; status == FF_OK && i < one->info.outputs; i++) {
        const ff_tensor *tensor = ff_output(one->model, i);
        char path[PATH_ROOM] = "";
        if (one->how->output != NULL) {
            snprintf(path, sizeof path, "%s/%llu.%llu.npy", one->how->output,
                     (unsigned long long)one->info.number, (unsigned long long)i);
            status = ff_write_array(path, tensor, one->outputs[i], error);
        }
        if (i) ff_add(&one->line, ", ");
        ff_add_tensor(&one->line, tensor);
        ff_add(&one->line, ", ");
        ff_add_text(&one->line, "file", path);
        ff_add(&one->line, "}");
        if (!one->how->json) {
            printf("  %s: %s %s\n", tensor->name, tensor->text, path);
        }
    }
    return status;
}

static ff_status play_model(run *one, uint32_t device, ff_error *error) {
    double began, first;
    ff_status status = make_arrays(one, error);
    if (status != FF_OK) return status;
    describe(one, device);
    began = ff_seconds();
    status = play(one, error);
    first = ff_seconds() - began;
    for (size_t i = 1; status == FF_OK && i < one->how->runs; i++) status = play(one, error);
    if (!one->how->json && status == FF_OK) {
        printf("%s: plan for %s in %s, opened in %.1f ms (program from %s), first run %.2f ms\n",
               one->info.name, one->info.made_for, one->info.precision,
               1e3 * one->info.open_seconds, one->info.program, 1e3 * first);
    }
    if (status == FF_OK) status = write_outputs(one, error);
    ff_add(&one->line, "], \"seconds\": {\"open\": %.9f, \"build\": %.9f, \"first_run\": %.9f}",
           one->info.open_seconds, one->info.build_seconds, first);
    if (status == FF_OK && one->how->bench) status = bench(one, error);
    if (status == FF_OK && one->how->profile) status = profile(one, error);
    if (status == FF_OK && one->how->binaries != NULL) status = save_binary(one, error);
    ff_add(&one->line, "}");
    return status;
}

static int run_model(const request *how, ff_player *player, size_t number) {
    ff_options options = how->options;
    run one = {0};
    ff_error error = {FF_OK, ""};
    ff_status status;
    one.how = how;
    options.model = ff_model_name(player, number);
    one.model = ff_load(player, &options, &error);
    status = one.model == NULL ? error.status : FF_OK;
    if (status == FF_OK) {
        one.info = ff_model_info(one.model);
        status = play_model(&one, ff_player_device(player)->number, &error);
    }
    if (status != FF_OK) ff_tell_error(options.model, number, &error, how->json);
    else if (how->json) ff_tell(&one.line);
    for (size_t i = 0; one.inputs != NULL && i < one.info.inputs; i++) free(one.inputs[i]);
    for (size_t i = 0; one.outputs != NULL && i < one.info.outputs; i++) free(one.outputs[i]);
    free(one.inputs);
    free(one.outputs);
    free(one.made_up);
    free(one.line.text);
    ff_unload(one.model);
    return status == FF_OK ? GOOD : FAILED;
}

static int run_steps(const request *how, ff_player *player) {
    ff_error error = {FF_OK, ""};
    FILE *steps = strcmp(how->steps, "-") == 0 ? stdin : fopen(how->steps, "r");
    ff_status status = FF_OK;
    if (steps == NULL) status = ff_fail(&error, FF_FILE, "'%s' cannot be read", how->steps);
    if (status == FF_OK) status = ff_do_steps(player, &how->options, steps, &error);
    if (status != FF_OK) ff_tell_error(NULL, 0, &error, 1);
    if (steps != NULL && steps != stdin) fclose(steps);
    return status == FF_OK ? GOOD : FAILED;
}

static int run_file(const request *how) {
    ff_error error = {FF_OK, ""};
    ff_player *player = ff_open(how->file, how->device, &error);
    const char *wanted = how->options.model;
    int result = GOOD, played = 0;
    if (player == NULL) {
        ff_tell_error(NULL, 0, &error, how->json);
        return error.status == FF_OPENCL ? NO_DEVICE : FAILED;
    }
    if (how->steps != NULL) {
        result = run_steps(how, player);
        ff_close(player);
        return result;
    }
    for (size_t i = 0; i < ff_model_count(player); i++) {
        if (wanted != NULL && strcmp(wanted, ff_model_name(player, i)) != 0) continue;
        played = 1;
        if (run_model(how, player, i) != GOOD) result = FAILED;
    }
    if (!played) {
        ff_fail(&error, FF_ARGUMENT, "the file has no model '%s'", wanted == NULL ? "" : wanted);
        ff_tell_error(NULL, 0, &error, how->json);
        result = FAILED;
    }
    ff_close(player);
    return result;
}

int main(int count, char **arguments) {
    request how = {0};
    how.runs = 1;
    how.seconds = 1;
    if (!read_arguments(&how, count, arguments)) return WRONG_USE;
    if (how.help) printf("%s", USAGE);
    else if (how.version) printf("fourfold-run: reads files of format %u\n", ff_format());
    else return how.probe ? probe(&how) : run_file(&how);
    return GOOD;
}
