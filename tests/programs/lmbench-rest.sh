#: lmbench bw_file_rd bw_mem bw_mmap_rd bw_pipe enough lat_cmd lat_dram_page lat_fcntl lat_fs lat_http lat_mem_rd lat_ops lat_pmake lat_rand lat_rpc lat_sem lat_unix_connect lat_usleep line lmdd lmhttp loop_o memsize mhz msleep par_mem par_ops stream timing_o tlb
#: package rpcbind netbase
#: long
#: minutes 20
# The rest of lmbench's programs, with the statuses that they have on Linux. Not among them: disk and flushdisk, which need a disk,
# and cache, which looks for an end of the cache that an emulator does not have.
ip link set lo up
echo '127.0.0.1 localhost' >>/etc/hosts
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
try() {
	"$@" >log 2>&1
	echo "$*: $?"
}
dd if=/dev/zero of=file bs=65536 count=16 2>/dev/null
try bw_file_rd -N 1 1m io_only file
try bw_file_rd -N 1 1m open2close file
try bw_mmap_rd -N 1 1m mmap_only file
try bw_mmap_rd -N 1 1m open2close file
for how in rd wr rdwr cp fwr frd fcp bzero bcopy; do
	try bw_mem -N 1 256k $how
done
try bw_pipe -N 1 -m 65536 -M 1m
try lat_fcntl -N 1
try lat_fs -N 1
try lat_sem -N 1
try lat_usleep -N 1 100
try lat_unix_connect -s
# It listens a little after its command has ended.
until lat_unix_connect -N 1 >log 2>&1; do sleep 0.1; done
try lat_unix_connect -N 1
try lat_unix_connect -S
try lat_rand -N 1
try lat_ops -N 1
try lat_mem_rd -N 1 1 512
try lat_dram_page -N 1 -M 1m
try lat_cmd -N 1 true
try lat_pmake -N 1 2 10
try stream -N 1 -M 256k
try par_ops -N 1
try par_mem -N 1 -M 64k
try line -N 1 -M 256k
try tlb -N 1 -M 64
# Its status says whether its measurements agree.
mhz >log 2>&1
echo mhz
try memsize 4
try msleep 10
try lmdd if=internal of=copied bs=65536 count=16
try lmdd if=copied of=internal bs=65536
try enough
try loop_o
try timing_o
lmhttp 8080 >/dev/null 2>&1 &
until nc 127.0.0.1 8080 </dev/null 2>/dev/null; do :; done
echo file | try lat_http 127.0.0.1 8080
try lat_http -S 127.0.0.1 8080
wait
echo '_rpc:x:101:65534::/run/rpcbind:/bin/false' >>/etc/passwd
mkdir -p /run/rpcbind
rpcbind -w
until rpcinfo >/dev/null 2>&1; do :; done
try lat_rpc -s
# Both have come under the number of its program.
until [ "$(rpcinfo | grep -c ' 404040 ')" = 2 ]; do :; done
# It waits 25 ms at most, which an emulator may take: what it says then differs.
try lat_rpc -N 1 -p tcp localhost
try lat_rpc -N 1 -p udp localhost
try lat_rpc -S localhost
kill "$(pidof rpcbind)"
