#: only arm64
#: package tcc:armhf libc6-dev:armhf
# Debian's C compiler of 32-bit Arm compiles a program, dynamic, which runs.
cat >p.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static int total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *add(void *by) {
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		total += (int)(long)by;
		pthread_mutex_unlock(&lock);
	}
	return by;
}
int main(int argc, char **argv) {
	pthread_t threads[4];
	int ends[2], status;
	char text[32] = "";
	for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, add, (void *)i);
	for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	if (fork() == 0) { write(ends[1], "from the child", 15); _exit(3); }
	read(ends[0], text, sizeof text);
	wait(&status);
	char *large = malloc(50000000);
	memset(large, 1, 50000000);
	printf("%d %d %s %d %d %s\n", (int)sizeof(void *), total, text, WEXITSTATUS(status), large[49999999], argv[1]);
	return 0;
}
C
tcc -o p p.c -lpthread && ./p compiled
tcc -run p.c run
head -c 20 p | od -A n -t x1
