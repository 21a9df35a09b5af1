/* Rounds of FedAvg on logistic regression, as plainly as C allows: one core, no library.
   Rows are drawn with replacement; signs are the labels as -1 and 1. */

#include <math.h>
#include <stdint.h>
#include <string.h>

static uint32_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

static uint32_t below(uint64_t *state, uint32_t bound) {
    return (uint32_t)(((uint64_t)next(state) * bound) >> 32);
}

/* x: clients x rows x features; sign: clients x rows; model, v, g: features; who: clients. */
void run(const float *x, const float *sign, float *model, float *v, float *g, float *sum,
         int32_t *who, int32_t clients, int32_t rows, int32_t features, int32_t cohort,
         int32_t steps, int32_t batch, float lr, int64_t rounds, uint64_t seed) {
    for (int32_t i = 0; i < clients; i++) who[i] = i;
    for (int64_t round = 0; round < rounds; round++) {
        memset(sum, 0, sizeof(float) * features);
        for (int32_t c = 0; c < cohort; c++) {
            int32_t other = c + (cohort < clients ? (int32_t)below(&seed, clients - c) : 0);
            int32_t client = who[other];
            who[other] = who[c];
            who[c] = client;
            memcpy(v, model, sizeof(float) * features);
            for (int32_t s = 0; s < steps; s++) {
                memset(g, 0, sizeof(float) * features);
                for (int32_t b = 0; b < batch; b++) {
                    int64_t row = (int64_t)client * rows + below(&seed, rows);
                    const float *restrict a = x + row * features;
                    float margin = 0;
                    for (int32_t j = 0; j < features; j++) margin += a[j] * v[j];
                    float slope = -sign[row] / (1 + expf(sign[row] * margin));
                    for (int32_t j = 0; j < features; j++) g[j] += slope * a[j];
                }
                for (int32_t j = 0; j < features; j++) v[j] -= lr / batch * g[j];
            }
            for (int32_t j = 0; j < features; j++) sum[j] += v[j];
        }
        for (int32_t j = 0; j < features; j++) model[j] = sum[j] / cohort;
    }
}
