/* Runs a model three times on ones, resets it, runs it again, and prints each first output. */
#include <stdio.h>
#include <stdlib.h>

#include "fourfold.h"

int main(int count, char **arguments) {
    ff_error error;
    ff_player *player = count > 2 ? ff_open(arguments[1], arguments[2], NULL, &error) : NULL;
    ff_model *model = player ? ff_load(player, NULL, &error) : NULL;
    const ff_tensor *input = model ? ff_input(model, 0) : NULL;
    size_t bytes = model ? ff_output(model, 0)->bytes : 0;
    float *x = input ? malloc(input->bytes) : NULL;
    unsigned char *y = malloc(bytes + 1);
    const void *inputs[1] = {NULL};
    void *outputs[1] = {NULL};
    if (model == NULL) return 1;
    for (size_t i = 0; i < input->bytes / sizeof *x; i++) x[i] = 1;
    inputs[0] = x;
    outputs[0] = y;
    for (int run = 0; run < 4; run++) {
        if (run == 3 && ff_reset(model, &error) != FF_OK) return 1;
        if (ff_run(model, inputs, outputs, &error) != FF_OK) return 1;
        for (size_t i = 0; i < bytes; i++) printf("%02x", y[i]);
        printf("\n");
    }
    free(x);
    free(y);
    ff_unload(model);
    ff_close(player);
    return 0;
}
