#: package tcc libc6-dev
#: only arm64
# Debian's tcc compiles, links and runs a program.
cat >hello.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pthread.h>
static void *work(void *n) { long s = 0; for (long i = 0; i < 100000; i++) s += i ^ (long)n; return (void *)s; }
int main(int argc, char **argv) {
    pthread_t t[4]; long all = 0;
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) { void *s; pthread_join(t[i], &s); all += (long)s; }
    char *text = strdup("compiled by tcc"); printf("%s %d %ld\n", text, argc, all); free(text);
    return 6;
}
C
tcc -o hello hello.c -lpthread && ./hello a b; echo "status $?"
tcc -run hello.c; echo "run $?"
tcc -c hello.c && ls -1 hello.o; echo 'int main( {' | tcc - 2>&1 | tail -1
