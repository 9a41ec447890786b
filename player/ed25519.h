/* Ed25519 (RFC 8032): verifies signatures. Runs in variable time, since all data is public. */
#ifndef FF_ED25519_H
#define FF_ED25519_H

#include <stddef.h>
#include <stdint.h>

enum { FF_KEY_BYTES = 32, FF_SIGNATURE_BYTES = 64 };

/* Returns 1 if the signature of a message is valid for a public key, else 0. */
int ff_ed25519_verify(const uint8_t signature[FF_SIGNATURE_BYTES], const uint8_t key[FF_KEY_BYTES],
                      const void *message, size_t size);

#endif
