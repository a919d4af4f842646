// neighbour: blocks that each take a multiprocessor's shared memory, until they are told to stop.
// Both flags lie in the host's memory: a kernel that sets one might have to wait for this one.

__global__ void neighbour(const volatile int *stop, volatile int *started, long long cycles) {
    long long end = clock64() + cycles; // whatever happens
    started[blockIdx.x] = 1;
    while (!*stop && clock64() < end)
        __nanosleep(1000);
}
