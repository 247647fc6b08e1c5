#: guest
#: package socat
#: hypervisor
#: long
#: minutes 10
# Streams of the guest to ports of the host are streams to the monitor's Unix sockets: Debian's socat at both ends.
cd /
find usr/bin/socat* usr/lib/ld-linux-* usr/lib/aarch64-linux-gnu | cpio -o -H newc 2>/dev/null >/tmp/programs
cd /tmp
cat /vm/initrd programs >initrd
socat UNIX-LISTEN:stream_1234 EXEC:'tr a-z A-Z' &
socat -u UNIX-LISTEN:stream_99 - | md5sum >sum &
while [ ! -S stream_1234 ] || [ ! -S stream_99 ]; do :; done
vmm --vcpus 2 --memory 256M --vsock /tmp/stream --log --initrd initrd --append "$(cat /vm/parameters) -- sh -c \"
    echo from the guest | socat -t 60 - VSOCK-CONNECT:2:1234
    seq 300000 | socat -u - VSOCK-CONNECT:2:99
    socat -u - VSOCK-CONNECT:2:1 2>/dev/null || echo no such port
    exit 5\"" /vm/kernel </dev/null
echo "status $?"
wait
cat sum
seq 300000 | md5sum
