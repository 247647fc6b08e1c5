#: package g++ make
#: memory 2G
#: long
#: minutes 20
# Debian's g++ and make, four jobs at once: C++'s threads, exceptions and folders; a shared library; the sanitizers.
for i in $(seq 8); do
	printf '#include <string>\n#include <vector>\nint f%d(int n) { std::vector<std::string> v; while (n-- > 0) v.push_back(std::to_string(n * %d)); return v.size(); }\n' $i $i >f$i.cc
done
cat >main.cc <<'C'
#include <atomic>
#include <filesystem>
#include <future>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <vector>
int f1(int), f8(int);
int main()
{
	std::atomic<int> count{0};
	std::vector<std::thread> threads;
	for (int i = 0; i < 8; i++)
		threads.emplace_back([&] { for (int j = 0; j < 1000; j++) count++; });
	for (auto &thread : threads)
		thread.join();
	auto later = std::async(std::launch::async, [] { return f1(10) + f8(20); });
	std::cout << count << ' ' << later.get() << std::endl;
	try {
		throw std::runtime_error("thrown");
	} catch (std::exception &error) {
		std::cout << error.what() << std::endl;
	}
	std::cout << std::distance(std::filesystem::directory_iterator("."), {}) << std::endl;
	std::vector<int>().at(1);
}
C
cat >Makefile <<'M'
OBJECTS = $(patsubst %.cc,%.o,$(sort $(wildcard f*.cc)))
program: main.cc libf.so
	@g++ -O1 -std=c++20 -o $@ main.cc -L. -lf -Wl,-rpath,.
libf.so: $(OBJECTS)
	@g++ -shared -o $@ $^
%.o: %.cc
	@g++ -O1 -fPIC -c -o $@ $<
M
make -j4; ls *.o | wc -l; ./program 2>/dev/null; echo "status $?"
make; touch f3.cc; make -n | cut -d' ' -f1-4 | head -1; rm -f *.o
make -j4 --jobserver-style=pipe libf.so 2>/dev/null; ls *.o | wc -l
g++ -x c++ -g -fsanitize=address,undefined -o checked - <<'C'
#include <cstdlib>
#include <climits>
int main(int argc, char **argv) { int x = INT_MAX; x += argc; char *p = (char *)malloc(3); p[2 + argc] = 1; return x == p[1]; }
C
./checked 2>&1 | grep -oE 'signed integer overflow|heap-buffer-overflow on address|SUMMARY: AddressSanitizer: heap-buffer-overflow'
