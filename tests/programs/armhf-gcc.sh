#: only arm64
#: package gcc:armhf libc6-dev:armhf
#: long
#: minutes 8
# Debian's gcc of 32-bit Arm: what debian-gcc does.
cat >program.c <<'C'
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <threads.h>

enum { THREADS = 8, ROUNDS = 500 };
static pthread_barrier_t barrier;
static atomic_long sum;
static _Atomic unsigned long long wide[2];
static atomic_flag flag = ATOMIC_FLAG_INIT;
static long guarded, serial;
static thread_local long own;

static void *work(void *number)
{
	for (int round = 0; round < ROUNDS; round++) {
		atomic_fetch_add_explicit(&sum, (long)number, memory_order_relaxed);
		unsigned long long seen = atomic_load(&wide[0]);
		while (!atomic_compare_exchange_weak(&wide[0], &seen, seen + 3))
			;
		while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire))
			thrd_yield();
		guarded++;
		atomic_flag_clear_explicit(&flag, memory_order_release);
		own++;
		/* One thread of each round is told apart, and all see what came before. */
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			serial += atomic_load(&wide[0]) == (unsigned long long)(round + 1) * THREADS * 3;
		pthread_barrier_wait(&barrier);
	}
	atomic_fetch_xor(&wide[1], 1ull << (long)number);
	return (void *)own;
}

static int short_lived(void *value)
{
	return *(int *)value * 2;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (long number = 0; number < THREADS; number++)
		pthread_create(&threads[number], NULL, work, (void *)number);
	long all = 0;
	for (int number = 0; number < THREADS; number++) {
		void *own_of_thread;
		pthread_join(threads[number], &own_of_thread);
		all += (long)own_of_thread;
	}
	thrd_t thread;
	int value = 21, result = 0;
	thrd_create(&thread, short_lived, &value);
	thrd_join(thread, &result);
	printf("%ld %llu %llx %ld %ld %ld %d\n", sum, wide[0], wide[1], guarded, serial, all, result);
	return 5;
}
C
gcc -O2 -Wall -o program program.c && ./program
echo "status $?"
gcc -O2 -static -o static program.c && ./static
echo "status $?"
gcc -c -x c - <<'C' 2>&1 | grep -c error
int main( {
C
