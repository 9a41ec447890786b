/* Checks the names and signatures of prepared files: docs/internals/file-format.md. */
#include "trust.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ed25519.h"
#include "sha512.h"

enum { KEY_DIGITS = 2 * FF_KEY_BYTES, TRAILER_BYTES = FF_KEY_BYTES + FF_SIGNATURE_BYTES };

static const char SIGNED[] = "signed:", EXTENSION[] = ".fourfold";
static const char DOMAIN[] = "fourfold prepared file"; /* signed with its final zero byte */

static int digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    letter = (char)tolower((unsigned char)letter);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Reads a key of hexadecimal digits; returns what follows it, or NULL if it is no key. */
static const char *read_key(uint8_t key[FF_KEY_BYTES], const char *text) {
    for (int i = 0; i < KEY_DIGITS; i++) {
        if (digit(text[i]) < 0) return NULL;
        key[i / 2] = (uint8_t)(key[i / 2] << 4 | digit(text[i]));
    }
    return text + KEY_DIGITS;
}

ff_status ff_trust_read(ff_trust *trust, const char *text, ff_error *error) {
    static const char *const names[] = {"extension", "data", "signed", "all"};
    uint8_t key[FF_KEY_BYTES];
    *trust = FF_TRUST_EXTENSION;
    if (text == NULL) return FF_OK;
    for (int i = 0; i < 4; i++) {
        if (i != FF_TRUST_SIGNED && strcmp(text, names[i]) == 0) {
            *trust = (ff_trust)i;
            return FF_OK;
        }
    }
    if (strncmp(text, SIGNED, strlen(SIGNED)) == 0) {
        const char *at = text + strlen(SIGNED);
        while ((at = read_key(key, at)) != NULL && *at == ',') at++;
        *trust = FF_TRUST_SIGNED;
        if (at != NULL && *at == 0) return FF_OK;
    }
    return ff_fail(error, FF_ARGUMENT,
                   "the trust is '%s'; it must be extension, data, signed:KEY or all, where a key "
                   "has 64 hexadecimal digits",
                   text);
}

static ff_status check_name(const char *path, ff_error *error) {
    size_t size = path == NULL ? 0 : strlen(path), end = strlen(EXTENSION), same = 0;
    if (path == NULL) {
        return ff_fail(error, FF_ARGUMENT,
                       "a prepared file in memory holds code, and has no name that says so; pass "
                       "the trust \"all\" if you made it");
    }
    while (same < end && same < size &&
           tolower((unsigned char)path[size - 1 - same]) == EXTENSION[end - 1 - same]) {
        same++;
    }
    if (same == end) return FF_OK;
    return ff_fail(error, FF_ARGUMENT,
                   "'%s' is a prepared file under another name; it holds code, so its extension "
                   "must say what it is; rename it to end in %s if that is what you expect, or "
                   "pass the trust \"all\" if you made it",
                   path, EXTENSION);
}

/* Computes what is signed: the domain, and the digest of the file up to the signature. */
static size_t make_message(uint8_t message[sizeof DOMAIN + FF_SHA512_BYTES],
                           const ff_container *file) {
    ff_sha512 digest;
    memcpy(message, DOMAIN, sizeof DOMAIN);
    ff_sha512_begin(&digest);
    ff_sha512_add(&digest, file->bytes, file->size - FF_SIGNATURE_BYTES);
    ff_sha512_end(&digest, message + sizeof DOMAIN);
    return sizeof DOMAIN + FF_SHA512_BYTES;
}

static ff_status check_signature(const ff_container *file, const char *text, ff_error *error) {
    const uint8_t *signature = file->bytes + file->size - FF_SIGNATURE_BYTES;
    uint8_t key[FF_KEY_BYTES], message[sizeof DOMAIN + FF_SHA512_BYTES];
    const char *at = text + strlen(SIGNED);
    if (ff_container_signature_bytes(file) == 0) {
        return ff_fail(error, FF_FILE,
                       "the file is not signed; sign it with 'fourfold sign', or get a signed one");
    }
    if (ff_container_signature_bytes(file) != TRAILER_BYTES) {
        return ff_fail(error, FF_FILE, "the file is damaged: its signature has a wrong size");
    }
    while ((at = read_key(key, at)) != NULL) {
        if (memcmp(key, signature - FF_KEY_BYTES, FF_KEY_BYTES) == 0) {
            size_t size = make_message(message, file);
            if (ff_ed25519_verify(signature, key, message, size)) return FF_OK;
            return ff_fail(error, FF_FILE,
                           "the signature of the file is not valid: the file was changed after it "
                           "was signed; get it again from its author");
        }
        if (*at++ != ',') break;
    }
    return ff_fail(error, FF_FILE,
                   "the file is signed with another key; name that key only if you trust its "
                   "owner");
}

ff_status ff_trust_check(const ff_container *file, ff_trust trust, const char *text,
                         const char *path, ff_error *error) {
    if (trust == FF_TRUST_EXTENSION) return check_name(path, error);
    return trust == FF_TRUST_SIGNED ? check_signature(file, text, error) : FF_OK;
}
