//! Socket options. An option about packets that are lost, wait or leave the machine counts as
//! whole: it has no effect on Linux's lo either.

use super::{Group, choices};
use crate::Status::{Absent, Partial, Whole};

/// Options of level SOL_SOCKET.
pub const SOCKET: Group = Group {
    title: "setsockopt, getsockopt: SOL_SOCKET",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 SO_DEBUG Whole;
        2 SO_REUSEADDR Whole;
        3 SO_TYPE Whole;
        4 SO_ERROR Whole;
        5 SO_DONTROUTE Whole;
        6 SO_BROADCAST Partial("255.255.255.255 leads nowhere, not even from `lo`");
        7 SO_SNDBUF Whole;
        8 SO_RCVBUF Whole;
        9 SO_KEEPALIVE Whole;
        10 SO_OOBINLINE Whole;
        11 SO_NO_CHECK Partial("of what raw sockets see, no checksum is left out");
        12 SO_PRIORITY Partial("nothing queues to be sent");
        13 SO_LINGER Partial("what was written has arrived: a close waits where there is no room for more");
        14 SO_BSDCOMPAT Whole;
        15 SO_REUSEPORT Whole;
        16 SO_PASSCRED Whole;
        17 SO_PEERCRED Whole;
        18 SO_RCVLOWAT Whole;
        19 SO_SNDLOWAT Whole;
        20 SO_RCVTIMEO_OLD Whole;
        21 SO_SNDTIMEO_OLD Whole;
        25 SO_BINDTODEVICE Partial("lo alone");
        26 SO_ATTACH_FILTER Partial("of datagrams, frames and netlink; filters read neither headers before their packet nor its hash");
        27 SO_DETACH_FILTER Whole;
        28 SO_PEERNAME Whole;
        29 SO_TIMESTAMP_OLD Whole;
        30 SO_ACCEPTCONN Whole;
        31 SO_PEERSEC Absent;
        32 SO_SNDBUFFORCE Whole;
        33 SO_RCVBUFFORCE Whole;
        34 SO_PASSSEC Whole;
        35 SO_TIMESTAMPNS_OLD Whole;
        36 SO_MARK Whole;
        37 SO_TIMESTAMPING_OLD Partial("no statistics, EINVAL; TCP's reports are without the packet");
        38 SO_PROTOCOL Whole;
        39 SO_DOMAIN Whole;
        40 SO_RXQ_OVFL Whole;
        41 SO_WIFI_STATUS Whole;
        42 SO_PEEK_OFF Whole;
        43 SO_NOFCS Whole;
        44 SO_LOCK_FILTER Whole;
        45 SO_SELECT_ERR_QUEUE Whole;
        46 SO_BUSY_POLL Whole;
        47 SO_MAX_PACING_RATE Partial("reported: it cannot be set");
        48 SO_BPF_EXTENSIONS Whole;
        49 SO_INCOMING_CPU Whole;
        50 SO_ATTACH_BPF Partial("EOPNOTSUPP, as without CONFIG_BPF_SYSCALL");
        51 SO_ATTACH_REUSEPORT_CBPF Absent;
        52 SO_ATTACH_REUSEPORT_EBPF Partial("EOPNOTSUPP, as without CONFIG_BPF_SYSCALL");
        53 SO_CNX_ADVICE Absent;
        55 SO_MEMINFO Partial("what waits, and what may");
        56 SO_INCOMING_NAPI_ID Whole;
        57 SO_COOKIE Whole;
        59 SO_PEERGROUPS Whole;
        60 SO_ZEROCOPY Absent;
        61 SO_TXTIME Absent;
        62 SO_BINDTOIFINDEX Partial("lo alone");
        63 SO_TIMESTAMP_NEW Whole;
        64 SO_TIMESTAMPNS_NEW Whole;
        65 SO_TIMESTAMPING_NEW Partial("as SO_TIMESTAMPING_OLD");
        66 SO_RCVTIMEO_NEW Whole;
        67 SO_SNDTIMEO_NEW Whole;
        68 SO_DETACH_REUSEPORT_BPF Absent;
        69 SO_PREFER_BUSY_POLL Whole;
        70 SO_BUSY_POLL_BUDGET Whole;
        71 SO_NETNS_COOKIE Absent;
        72 SO_BUF_LOCK Whole;
        73 SO_RESERVE_MEM Partial("EOPNOTSUPP, as without a group that counts memory");
        74 SO_TXREHASH Whole;
        75 SO_RCVMARK Whole;
        76 SO_PASSPIDFD Whole;
        77 SO_PEERPIDFD Whole;
    },
};

/// Options of level IPPROTO_IP.
pub const IP: Group = Group {
    title: "setsockopt, getsockopt: IPPROTO_IP",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 IP_TOS Whole;
        2 IP_TTL Whole;
        3 IP_HDRINCL Whole;
        4 IP_OPTIONS Absent;
        5 IP_ROUTER_ALERT Absent;
        6 IP_RECVOPTS Partial("options come from IP_HDRINCL alone, and are not reported");
        7 IP_RETOPTS Partial("options come from IP_HDRINCL alone, and are not reported");
        8 IP_PKTINFO Whole;
        9 IP_PKTOPTIONS Absent;
        10 IP_MTU_DISCOVER Partial("whatever can be sent over IPv4 is short enough");
        11 IP_RECVERR Partial("datagrams that nobody took");
        12 IP_RECVTTL Whole;
        13 IP_RECVTOS Whole;
        14 IP_MTU Whole;
        15 IP_FREEBIND Whole;
        16 IP_IPSEC_POLICY Absent;
        17 IP_XFRM_POLICY Absent;
        18 IP_PASSSEC Whole;
        19 IP_TRANSPARENT Whole;
        20 IP_RECVORIGDSTADDR Whole;
        21 IP_MINTTL Absent;
        22 IP_NODEFRAG Whole;
        23 IP_CHECKSUM Whole;
        24 IP_BIND_ADDRESS_NO_PORT Whole;
        25 IP_RECVFRAGSIZE Absent;
        26 IP_RECVERR_RFC4884 Whole;
        32 IP_MULTICAST_IF Absent;
        33 IP_MULTICAST_TTL Partial("stored and reported: nothing is sent to many");
        34 IP_MULTICAST_LOOP Partial("stored and reported: nothing is sent to many");
        35 IP_ADD_MEMBERSHIP Absent;
        36 IP_DROP_MEMBERSHIP Absent;
        37 IP_UNBLOCK_SOURCE Absent;
        38 IP_BLOCK_SOURCE Absent;
        39 IP_ADD_SOURCE_MEMBERSHIP Absent;
        40 IP_DROP_SOURCE_MEMBERSHIP Absent;
        41 IP_MSFILTER Absent;
        42 MCAST_JOIN_GROUP Absent;
        43 MCAST_BLOCK_SOURCE Absent;
        44 MCAST_UNBLOCK_SOURCE Absent;
        45 MCAST_LEAVE_GROUP Absent;
        46 MCAST_JOIN_SOURCE_GROUP Absent;
        47 MCAST_LEAVE_SOURCE_GROUP Absent;
        48 MCAST_MSFILTER Absent;
        49 IP_MULTICAST_ALL Partial("stored and reported: nothing is sent to many");
        50 IP_UNICAST_IF Absent;
        51 IP_LOCAL_PORT_RANGE Whole;
        52 IP_PROTOCOL Absent;
    },
};

/// Options of level IPPROTO_IPV6.
pub const IPV6: Group = Group {
    title: "setsockopt, getsockopt: IPPROTO_IPV6",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 IPV6_ADDRFORM Absent;
        2 IPV6_2292PKTINFO Whole;
        3 IPV6_2292HOPOPTS Partial("nothing sends options");
        4 IPV6_2292DSTOPTS Partial("nothing sends options");
        5 IPV6_2292RTHDR Partial("nothing sends options");
        6 IPV6_2292PKTOPTIONS Absent;
        7 IPV6_CHECKSUM Absent;
        8 IPV6_2292HOPLIMIT Whole;
        9 IPV6_NEXTHOP Absent;
        11 IPV6_FLOWINFO Absent;
        16 IPV6_UNICAST_HOPS Whole;
        17 IPV6_MULTICAST_IF Absent;
        18 IPV6_MULTICAST_HOPS Partial("stored and reported: nothing is sent to many");
        19 IPV6_MULTICAST_LOOP Partial("stored and reported: nothing is sent to many");
        20 IPV6_ADD_MEMBERSHIP Absent;
        21 IPV6_DROP_MEMBERSHIP Absent;
        22 IPV6_ROUTER_ALERT Whole;
        23 IPV6_MTU_DISCOVER Whole;
        24 IPV6_MTU Whole;
        25 IPV6_RECVERR Partial("datagrams that nobody took");
        26 IPV6_V6ONLY Whole;
        27 IPV6_JOIN_ANYCAST Absent;
        28 IPV6_LEAVE_ANYCAST Absent;
        29 IPV6_MULTICAST_ALL Partial("stored and reported: nothing is sent to many");
        30 IPV6_ROUTER_ALERT_ISOLATE Absent;
        31 IPV6_RECVERR_RFC4884 Whole;
        32 IPV6_FLOWLABEL_MGR Absent;
        33 IPV6_FLOWINFO_SEND Absent;
        34 IPV6_IPSEC_POLICY Absent;
        35 IPV6_XFRM_POLICY Absent;
        36 IPV6_HDRINCL Absent;
        49 IPV6_RECVPKTINFO Whole;
        50 IPV6_PKTINFO Absent;
        51 IPV6_RECVHOPLIMIT Whole;
        53 IPV6_RECVHOPOPTS Partial("nothing sends options");
        54 IPV6_HOPOPTS Absent;
        55 IPV6_RTHDRDSTOPTS Absent;
        56 IPV6_RECVRTHDR Partial("nothing sends options");
        57 IPV6_RTHDR Absent;
        58 IPV6_RECVDSTOPTS Partial("nothing sends options");
        59 IPV6_DSTOPTS Absent;
        60 IPV6_RECVPATHMTU Partial("stored and reported: no path has become narrower, and what is too long is EMSGSIZE alone");
        61 IPV6_PATHMTU Absent;
        62 IPV6_DONTFRAG Whole;
        66 IPV6_RECVTCLASS Whole;
        67 IPV6_TCLASS Whole;
        70 IPV6_AUTOFLOWLABEL Absent;
        72 IPV6_ADDR_PREFERENCES Absent;
        73 IPV6_MINHOPCOUNT Absent;
        74 IPV6_RECVORIGDSTADDR Whole;
        75 IPV6_TRANSPARENT Whole;
        76 IPV6_UNICAST_IF Absent;
        77 IPV6_RECVFRAGSIZE Partial("there are no fragments");
        78 IPV6_FREEBIND Whole;
    },
};

/// Options of level IPPROTO_TCP.
pub const TCP: Group = Group {
    title: "setsockopt, getsockopt: IPPROTO_TCP",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 TCP_NODELAY Whole;
        2 TCP_MAXSEG Whole;
        3 TCP_CORK Whole;
        4 TCP_KEEPIDLE Whole;
        5 TCP_KEEPINTVL Whole;
        6 TCP_KEEPCNT Whole;
        7 TCP_SYNCNT Whole;
        8 TCP_LINGER2 Whole;
        9 TCP_DEFER_ACCEPT Partial("a connection without data waits for the seconds said, not for rounds of SYN-ACKs");
        10 TCP_WINDOW_CLAMP Partial("stored and reported: it bounds nothing, as on Linux 6.12 once bytes arrived");
        11 TCP_INFO Partial("what a connection that lost nothing has");
        12 TCP_QUICKACK Whole;
        13 TCP_CONGESTION Partial("cubic and reno, which have nothing to do");
        14 TCP_MD5SIG Absent;
        16 TCP_THIN_LINEAR_TIMEOUTS Whole;
        17 TCP_THIN_DUPACK Whole;
        18 TCP_USER_TIMEOUT Whole;
        19 TCP_REPAIR Absent;
        20 TCP_REPAIR_QUEUE Absent;
        21 TCP_QUEUE_SEQ Absent;
        22 TCP_REPAIR_OPTIONS Absent;
        23 TCP_FASTOPEN Partial("as with net.ipv4.tcp_fastopen=1: data come after the connection");
        24 TCP_TIMESTAMP Absent;
        25 TCP_NOTSENT_LOWAT Whole;
        26 TCP_CC_INFO Absent;
        27 TCP_SAVE_SYN Absent;
        28 TCP_SAVED_SYN Absent;
        29 TCP_REPAIR_WINDOW Absent;
        30 TCP_FASTOPEN_CONNECT Partial("as with net.ipv4.tcp_fastopen=1: a connection comes before data");
        31 TCP_ULP Partial("ENOENT, as without a protocol");
        32 TCP_MD5SIG_EXT Absent;
        33 TCP_FASTOPEN_KEY Absent;
        34 TCP_FASTOPEN_NO_COOKIE Absent;
        35 TCP_ZEROCOPY_RECEIVE Absent;
        36 TCP_INQ Whole;
        37 TCP_TX_DELAY Absent;
        38 TCP_AO_ADD_KEY Absent;
        39 TCP_AO_DEL_KEY Absent;
        40 TCP_AO_INFO Absent;
        41 TCP_AO_GET_KEYS Absent;
        42 TCP_AO_REPAIR Absent;
        43 TCP_IS_MPTCP Whole;
    },
};

/// Options of level IPPROTO_UDP.
pub const UDP: Group = Group {
    title: "setsockopt, getsockopt: IPPROTO_UDP",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 UDP_CORK Whole;
        100 UDP_ENCAP Absent;
        101 UDP_NO_CHECK6_TX Whole;
        102 UDP_NO_CHECK6_RX Whole;
        103 UDP_SEGMENT Whole;
        104 UDP_GRO Whole;
    },
};

/// Options of level SOL_NETLINK.
pub const NETLINK: Group = Group {
    title: "setsockopt, getsockopt: SOL_NETLINK",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 NETLINK_ADD_MEMBERSHIP Partial("stored and reported: nothing is sent to groups");
        2 NETLINK_DROP_MEMBERSHIP Partial("stored and reported: nothing is sent to groups");
        3 NETLINK_PKTINFO Whole;
        4 NETLINK_BROADCAST_ERROR Partial("stored and reported: nothing is sent to groups");
        5 NETLINK_NO_ENOBUFS Partial("stored and reported: nothing is sent to groups");
        6 NETLINK_RX_RING Absent;
        7 NETLINK_TX_RING Absent;
        8 NETLINK_LISTEN_ALL_NSID Absent;
        9 NETLINK_LIST_MEMBERSHIPS Whole;
        10 NETLINK_CAP_ACK Whole;
        11 NETLINK_EXT_ACK Partial("no error has a text, or says which attribute it is about");
        12 NETLINK_GET_STRICT_CHK Absent;
    },
};

/// Options of level SOL_PACKET.
pub const PACKET: Group = Group {
    title: "setsockopt, getsockopt: SOL_PACKET",
    refused: "ENOPROTOOPT",
    choices: choices! {
        1 PACKET_ADD_MEMBERSHIP Partial("cards pass all groups of their link, whoever asks");
        2 PACKET_DROP_MEMBERSHIP Whole;
        3 PACKET_RECV_OUTPUT Absent;
        5 PACKET_RX_RING Absent;
        6 PACKET_STATISTICS Whole;
        7 PACKET_COPY_THRESH Absent;
        8 PACKET_AUXDATA Whole;
        9 PACKET_ORIGDEV Whole;
        10 PACKET_VERSION Absent;
        11 PACKET_HDRLEN Absent;
        12 PACKET_RESERVE Absent;
        13 PACKET_TX_RING Absent;
        14 PACKET_LOSS Absent;
        15 PACKET_VNET_HDR Absent;
        16 PACKET_TX_TIMESTAMP Absent;
        17 PACKET_TIMESTAMP Absent;
        18 PACKET_FANOUT Absent;
        19 PACKET_TX_HAS_OFF Absent;
        20 PACKET_QDISC_BYPASS Absent;
        21 PACKET_ROLLOVER_STATS Absent;
        22 PACKET_FANOUT_DATA Absent;
        23 PACKET_IGNORE_OUTGOING Whole;
        24 PACKET_VNET_HDR_SZ Absent;
    },
};

/// Requests of NETLINK_ROUTE about interfaces and addresses.
pub const ROUTE: Group = Group {
    title: "NETLINK_ROUTE: what changes interfaces, addresses and routes",
    refused: "EOPNOTSUPP",
    choices: choices! {
        16 RTM_NEWLINK Partial("lo stays as it is, and of a card only IFF_UP and the MTU change: what asks for something else is EOPNOTSUPP");
        17 RTM_DELLINK Absent;
        19 RTM_SETLINK Partial("as RTM_NEWLINK");
        20 RTM_NEWADDR Partial("lo stays as it is; lifetimes and addresses of a peer are EOPNOTSUPP");
        21 RTM_DELADDR Partial("lo stays as it is");
        24 RTM_NEWROUTE Partial("of the main table, by one gateway and interface, with a metric, a source and an MTU: others are EOPNOTSUPP");
        25 RTM_DELROUTE Partial("as RTM_NEWROUTE");
        28 RTM_NEWNEIGH Partial("with a card's address, permanent, reachable or stale");
        29 RTM_DELNEIGH Whole;
        32 RTM_NEWRULE Absent;
        33 RTM_DELRULE Absent;
        36 RTM_NEWQDISC Absent;
        37 RTM_DELQDISC Absent;
    },
};

/// Control operations on interfaces.
pub const INTERFACE: Group = Group {
    title: "ioctl: interfaces",
    refused: "ENOTTY",
    choices: choices! {
        0x8910 SIOCGIFNAME Whole;
        0x8911 SIOCSIFLINK Absent;
        0x8912 SIOCGIFCONF Whole;
        0x8913 SIOCGIFFLAGS Whole;
        0x8914 SIOCSIFFLAGS Partial("lo stays as it is: other flags are EOPNOTSUPP");
        0x8915 SIOCGIFADDR Whole;
        0x8916 SIOCSIFADDR Partial("lo stays as it is: another address is EOPNOTSUPP");
        0x8917 SIOCGIFDSTADDR Whole;
        0x8918 SIOCSIFDSTADDR Absent;
        0x8919 SIOCGIFBRDADDR Whole;
        0x891a SIOCSIFBRDADDR Partial("lo stays as it is: EOPNOTSUPP");
        0x891b SIOCGIFNETMASK Whole;
        0x891c SIOCSIFNETMASK Partial("lo stays as it is: another mask is EOPNOTSUPP");
        0x891d SIOCGIFMETRIC Whole;
        0x891e SIOCSIFMETRIC Absent;
        0x891f SIOCGIFMEM Absent;
        0x8920 SIOCSIFMEM Absent;
        0x8921 SIOCGIFMTU Whole;
        0x8922 SIOCSIFMTU Partial("lo stays as it is; cards take up to 1500");
        0x8923 SIOCSIFNAME Absent;
        0x8924 SIOCSIFHWADDR Absent;
        0x8925 SIOCGIFENCAP Absent;
        0x8926 SIOCSIFENCAP Absent;
        0x8927 SIOCGIFHWADDR Whole;
        0x8929 SIOCGIFSLAVE Absent;
        0x8930 SIOCSIFSLAVE Absent;
        0x8931 SIOCADDMULTI Absent;
        0x8932 SIOCDELMULTI Absent;
        0x8933 SIOCGIFINDEX Whole;
        0x8934 SIOCSIFPFLAGS Absent;
        0x8935 SIOCGIFPFLAGS Absent;
        0x8936 SIOCDIFADDR Absent;
        0x8937 SIOCSIFHWBROADCAST Absent;
        0x8938 SIOCGIFCOUNT Absent;
        0x8940 SIOCGIFBR Absent;
        0x8941 SIOCSIFBR Absent;
        0x8942 SIOCGIFTXQLEN Whole;
        0x8943 SIOCSIFTXQLEN Absent;
        0x8946 SIOCETHTOOL Absent;
        0x8970 SIOCGIFMAP Absent;
        0x8971 SIOCSIFMAP Absent;
    },
};

/// Control messages of level IPPROTO_IPV6 that programs send.
pub const IPV6_CONTROL: Group = Group {
    title: "sendmsg: control messages of IPPROTO_IPV6",
    refused: "EINVAL",
    choices: choices! {
        2 IPV6_2292PKTINFO Whole;
        3 IPV6_2292HOPOPTS Partial("of padding alone: others are EINVAL");
        4 IPV6_2292DSTOPTS Partial("of padding alone: others are EINVAL");
        5 IPV6_2292RTHDR Absent;
        8 IPV6_2292HOPLIMIT Whole;
        11 IPV6_FLOWINFO Partial("receivers are not told");
        50 IPV6_PKTINFO Whole;
        52 IPV6_HOPLIMIT Whole;
        54 IPV6_HOPOPTS Partial("of padding alone: others are EINVAL");
        55 IPV6_RTHDRDSTOPTS Partial("of padding alone: others are EINVAL");
        57 IPV6_RTHDR Absent;
        59 IPV6_DSTOPTS Partial("of padding alone: others are EINVAL");
        62 IPV6_DONTFRAG Whole;
        67 IPV6_TCLASS Whole;
    },
};

/// Control messages of level IPPROTO_IP that programs send.
pub const IP_CONTROL: Group = Group {
    title: "sendmsg: control messages of IPPROTO_IP",
    refused: "EINVAL",
    choices: choices! {
        1 IP_TOS Whole;
        2 IP_TTL Whole;
        7 IP_RETOPTS Partial("without an option: others are EINVAL");
        8 IP_PKTINFO Whole;
        52 IP_PROTOCOL Whole;
    },
};
