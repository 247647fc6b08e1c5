# Settings and names that programs look up, as far as they do not depend on the machine.
ip link set lo up
cd /proc/sys
for file in net/core/* net/ipv4/* net/ipv6/bindv6only net/ipv6/conf/lo/disable_ipv6 net/unix/max_dgram_qlen vm/dirty_* \
    vm/overcommit_* vm/page-cluster vm/panic_on_oom vm/swappiness vm/vfs_cache_pressure fs/aio-* fs/nr_open \
    fs/suid_dumpable fs/pipe-max-size kernel/core_pattern kernel/core_uses_pid kernel/panic kernel/randomize_va_space; do
    case ${file#net/} in
    core/somaxconn | core/[rw]mem_* | core/optmem_max | core/netdev_max_backlog | ipv4/ip_default_ttl | ipv4/ip_forward | \
        ipv4/ip_local_* | ipv4/ip_nonlocal_bind | ipv4/ip_unprivileged_port_start | ipv4/ping_group_range | \
        ipv4/tcp_fin_timeout | ipv4/tcp_keepalive_* | ipv4/tcp_[rw]mem | ipv4/tcp_sack | ipv4/tcp_syn_retries | \
        ipv4/tcp_syncookies | ipv4/tcp_timestamps | ipv4/tcp_tw_reuse | ipv4/tcp_window_scaling | ipv6/* | unix/* | vm/dirty_ratio | \
        vm/dirty_background_ratio | vm/[opsv]* | fs/* | kernel/*)
        echo "$file: $(cat $file)"
        ;;
    esac
done
cd /sys/class/net && ls && readlink lo
for file in addr_len address broadcast carrier dev_id flags ifindex iflink mtu operstate tx_queue_len type; do
    echo "$file: $(cat lo/$file)"
done
cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size
cat /sys/devices/system/node/online /sys/devices/system/node/node0/distance
cat /proc/net/raw /proc/net/raw6 /proc/net/packet /proc/net/udplite
cat /proc/self/loginuid /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups /proc/self/coredump_filter; echo
echo 0x7b >/proc/self/coredump_filter && cat /proc/self/coredump_filter
