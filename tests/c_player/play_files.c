/* Opens, loads, runs and closes every model of the files named on standard input. With a number N
 * as argument it repeats this while the first to the N-th call of the fake driver fails. A second
 * argument is the level of trust.
 *
 * Prints a line for each file: how many models ran, and a digest of their outputs. The bytes of a
 * file are in memory of exactly their size, so that sanitizers detect reads beyond it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fourfold.h"

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long end;
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    end = ftell(file);
    rewind(file);
    bytes = malloc((size_t)end);
    *size = fread(bytes, 1, (size_t)end, file);
    fclose(file);
    return bytes;
}

static uint32_t digest(uint32_t sum, const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

static int run(ff_model *model, uint32_t *sum, ff_error *error) {
    ff_info info = ff_model_info(model);
    void **inputs = calloc(info.inputs + 1, sizeof *inputs), **outputs;
    ff_launch *launches = calloc(info.launches + 1, sizeof *launches);
    int good;
    outputs = calloc(info.outputs + 1, sizeof *outputs);
    for (size_t i = 0; i < info.inputs; i++) {
        size_t size = ff_input(model, i)->bytes;
        inputs[i] = malloc(size + 1);
        for (size_t j = 0; j < size; j++) ((unsigned char *)inputs[i])[j] = (unsigned char)(j & 31);
    }
    for (size_t i = 0; i < info.outputs; i++)
        outputs[i] = calloc(ff_output(model, i)->bytes + 1, 1);
    good = ff_run(model, (const void *const *)inputs, outputs, error) == FF_OK &&
           ff_run(model, (const void *const *)inputs, outputs, error) == FF_OK;
    for (size_t i = 0; good && i < info.outputs; i++) {
        *sum = digest(*sum, outputs[i], ff_output(model, i)->bytes);
    }
    good =
        good && ff_profile(model, (const void *const *)inputs, 2, launches, NULL, error) == FF_OK;
    good = good && ff_reset(model, error) == FF_OK && ff_replay(model, error) == FF_OK;
    for (size_t i = 0; i < info.inputs; i++) free(inputs[i]);
    for (size_t i = 0; i < info.outputs; i++) free(outputs[i]);
    free(inputs);
    free(outputs);
    free(launches);
    return good;
}

static void play(const char *path, const char *trust) {
    size_t size = 0, ran = 0, count = 0;
    void *bytes = read_file(path, &size);
    ff_error error = {FF_OK, ""};
    uint32_t sum = 2166136261u;
    ff_player *player = ff_open_memory(bytes, size, NULL, trust, &error);
    if (player != NULL) count = ff_model_count(player);
    for (size_t i = 0; i < count; i++) {
        ff_options options = {0};
        ff_model *model;
        options.model = ff_model_name(player, i);
        model = ff_load(player, &options, &error);
        if (model != NULL) ran += (size_t)run(model, &sum, &error);
        ff_unload(model);
    }
    ff_close(player);
    free(bytes);
    printf("%s %u %u %u %s: %s\n", path, (unsigned)count, (unsigned)ran, sum,
           ff_status_name(error.status), error.text);
    fflush(stdout);
}

int main(int count, char **arguments) {
    int most = count > 1 ? atoi(arguments[1]) : 0;
    char path[4096], number[16];
    while (fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = 0;
        for (int i = most > 0; i <= most; i++) {
            snprintf(number, sizeof number, "%d", i);
            if (i > 0) setenv("FAKE_FAIL", number, 1);
            play(path, count > 2 ? arguments[2] : "all");
        }
    }
    return 0;
}
