#!/bin/sh
# PID 1 of a guest: on the VMM's console, as it comes and goes, it runs the words that the kernel's command line has after
# `--`, or else /stile/job, and leaves the status to the VMM.
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for module in /stile/modules/*.ko*; do
    [ -f "$module" ] && insmod "$module"
done
exec </dev/hvc0 >/dev/hvc0 2>&1
stty -echo -onlcr
[ $# -gt 0 ] || set -- sh /stile/job
cd /root
setsid -c "$@"
status=$?
# Waits until all output is sent.
stty sane
register=$(echo /proc/device-tree/status@*)
[ -e "$register" ] && devmem "0x${register##*@}" 8 "$status"
poweroff -f
