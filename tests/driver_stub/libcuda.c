/* A library in the place of NVIDIA's driver. cuda-bindings asks it where the driver's functions are,
   and it asks a function of the test, which answers with functions of its own. */

#include <stddef.h>

typedef int (*Resolver)(const char *name, void **function);

static Resolver resolver = NULL;

void stub_set_resolver(Resolver chosen) { resolver = chosen; }

static int find(const char *name, void **function, int *status) {
    int code = resolver == NULL ? 500 : resolver(name, function); /* CUDA_ERROR_NOT_FOUND */
    if (status != NULL) {
        *status = code == 0 ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    }
    return code;
}

int cuGetProcAddress_v2(
    const char *name, void **function, int version, unsigned long long flags, int *status
) {
    (void)version;
    (void)flags;
    return find(name, function, status);
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
    (void)version;
    (void)flags;
    return find(name, function, NULL);
}
