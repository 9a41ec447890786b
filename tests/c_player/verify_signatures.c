/* Verifies signatures: lines of a public key, a message ('-' if empty) and a signature, in
 * hexadecimal. Prints the SHA-512 of each message, and 1 if its signature is valid, else 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ed25519.h"
#include "sha512.h"

enum { MAX_BYTES = 4096 };

static size_t read_hex(uint8_t *bytes, const char *text) {
    size_t size = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

int main(void) {
    static char texts[3][2 * MAX_BYTES + 1];
    static uint8_t message[MAX_BYTES];
    uint8_t key[MAX_BYTES], signature[MAX_BYTES], digest[FF_SHA512_BYTES];
    while (scanf("%8192s %8192s %8192s", texts[0], texts[1], texts[2]) == 3) {
        size_t size = read_hex(message, texts[1]);
        ff_sha512 hash;
        read_hex(key, texts[0]);
        read_hex(signature, texts[2]);
        ff_sha512_begin(&hash);
        ff_sha512_add(&hash, message, size / 3); /* in two parts */
        ff_sha512_add(&hash, message + size / 3, size - size / 3);
        ff_sha512_end(&hash, digest);
        for (int i = 0; i < FF_SHA512_BYTES; i++) printf("%02x", digest[i]);
        printf(" %d\n", ff_ed25519_verify(signature, key, message, size));
    }
    return 0;
}
