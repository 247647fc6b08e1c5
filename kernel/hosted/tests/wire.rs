//! Connections with another machine, whose segments these tests create and read.

use std::net::{IpAddr, Ipv4Addr};

use hosted::*;
use ip::checksum::Sum;
use ip::{arp, ethernet, v4};
use kernel::{slow_disk, wire};
use linux_raw_sys::net::*;
use tcp::header::MOST_BYTES;
use tcp::{Flags, Header};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const TCP: u8 = 6;
const TCP_LEVEL: u32 = 6;

/// Plugs in the wire, and forgets the packets sent so far.
fn plug() {
    wire::plug(OWN_MAC, OWN.into(), 24).unwrap();
    heard();
}

fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&OWN_MAC[..], &PEER_MAC, &kind.to_be_bytes(), payload].concat()
}

/// Delivers a packet from the peer.
fn give(protocol: u8, payload: &[u8]) {
    let header = v4::Header {
        class: 0,
        number: 0,
        whole: true,
        more: false,
        offset: 0,
        hops: 64,
        protocol,
        source: PEER,
        destination: OWN,
    };
    let packet = [&header.bytes(payload.len())[..], payload].concat();
    wire::give(&frame(ethernet::IPV4, &packet));
}

/// Delivers a segment from the peer.
fn say(header: &Header, payload: &[u8]) {
    let mut bytes = [0; MOST_BYTES];
    let head = header.write(&mut bytes);
    let mut segment = [&bytes[..head], payload].concat();
    let sum = Sum::pseudo(IpAddr::V4(PEER), IpAddr::V4(OWN), TCP, segment.len());
    let sum = sum.with(&segment).checksum();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    give(TCP, &segment);
}

/// The packets that were sent. The peer answers requests for its card.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Some(sent) = wire::take() {
        match u16::from_be_bytes([sent[12], sent[13]]) {
            ethernet::ARP => {
                let request = arp::Packet::parse(&sent[14..]).unwrap();
                if request.target_ip != OWN {
                    let reply = request.reply(ip::Mac(PEER_MAC));
                    wire::give(&frame(ethernet::ARP, &reply.bytes()));
                }
            }
            ethernet::IPV4 => packets.push(sent[14..].to_vec()),
            _ => {}
        }
    }
    packets
}

/// The segments that were sent.
fn heard() -> Vec<(Header, Vec<u8>)> {
    let segments = packets().into_iter().filter(|packet| packet[9] == TCP);
    segments
        .map(|packet| {
            let (header, at) = Header::parse(&packet[20..]).unwrap();
            (header, packet[20 + at..].to_vec())
        })
        .collect()
}

/// The one segment that was sent.
fn one() -> Header {
    let heard = heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    heard[0].0
}

fn address(ip: Ipv4Addr, port: u16) -> usize {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&ip.octets());
    put(&bytes)
}

fn set(fd: usize, level: u32, name: u32, value: i32) {
    let value = put(&value.to_ne_bytes());
    sys!(setsockopt, fd, level, name, value, 4).unwrap();
}

fn socket() -> usize {
    sys!(socket, AF_INET, SOCK_STREAM, 0).unwrap()
}

/// A socket that listens on a port.
fn listen(port: u16, backlog: usize) -> usize {
    let fd = socket();
    sys!(bind, fd, address(OWN, port), 16).unwrap();
    sys!(listen, fd, backlog).unwrap();
    fd
}

/// The peer's end of a connection.
#[derive(Clone, Copy)]
struct Far {
    own: u16,
    peer: u16,
    seq: u32,
    ack: u32,
}

impl Far {
    /// An end that has sent nothing yet.
    fn new(own: u16, peer: u16) -> Self {
        Far {
            own,
            peer,
            seq: 1000,
            ack: 0,
        }
    }

    fn header(&self, flags: Flags) -> Header {
        Header {
            source: self.peer,
            destination: self.own,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: 60_000,
            ..Header::default()
        }
    }

    /// Sends its SYN and returns the answer.
    fn open(&mut self) -> Header {
        say(&self.header(Flags::SYN), &[]);
        let answer = one();
        self.seq += 1;
        self.ack = answer.seq.wrapping_add(1);
        answer
    }

    /// A connection that is established.
    fn connect(own: u16, peer: u16) -> Self {
        let mut far = Far::new(own, peer);
        far.open();
        say(&far.header(Flags::ACK), &[]);
        far
    }

    /// Sends bytes.
    fn send(&mut self, flags: Flags, payload: &[u8]) {
        say(&self.header(Flags::ACK | flags), payload);
        self.seq += payload.len() as u32 + u32::from(flags.contains(Flags::FIN));
    }
}

#[test]
fn a_connection_is_accepted_and_read() {
    run(|| {
        plug();
        let server = listen(80, 5);
        let mut far = Far::connect(80, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        far.send(Flags::PSH, b"hello");
        let bytes = reserve(10);
        assert_eq!(sys!(read, fd, bytes, 10), Ok(5));
        assert_eq!(peek(bytes, 5), b"hello");
    });
}

/// Connects to a port of the peer without waiting, and returns the SYN.
fn connect(fd: usize, port: u16) -> Header {
    assert_eq!(
        sys!(connect, fd, address(PEER, port), 16),
        Err(Errno::EINPROGRESS)
    );
    one()
}

/// Answers a SYN as the peer, and returns the peer's end.
fn answer(syn: &Header) -> Far {
    let far = Far {
        ack: syn.seq.wrapping_add(1),
        ..Far::new(syn.source, syn.destination)
    };
    let mut header = far.header(Flags::SYN | Flags::ACK);
    header.options.mss = Some(1460);
    say(&header, &[]);
    Far {
        seq: far.seq + 1,
        ..far
    }
}

fn nonblocking() -> usize {
    let fd = socket();
    let flags = linux_raw_sys::general::O_NONBLOCK;
    sys!(fcntl, fd, linux_raw_sys::general::F_SETFL, flags).unwrap();
    fd
}

fn write(fd: usize, count: usize) -> usize {
    sys!(write, fd, put(&vec![7; count]), count).unwrap()
}

/// The lengths of the payloads that were sent.
fn lengths() -> Vec<usize> {
    let lengths = heard().into_iter().map(|(_, payload)| payload.len());
    lengths.filter(|&length| length > 0).collect()
}

#[test]
fn options_of_before_and_while_connecting_count() {
    run(|| {
        plug();
        let fd = nonblocking();
        set(fd, TCP_LEVEL, TCP_MAXSEG, 600);
        set(fd, TCP_LEVEL, TCP_CORK, 1);
        set(fd, SOL_SOCKET, SO_RCVBUF, 5000);
        let syn = connect(fd, 7001);
        assert_eq!((syn.options.mss, syn.window), (Some(600), 5000));
        answer(&syn);
        heard();
        write(fd, 700);
        assert_eq!(lengths(), [600]);
        set(fd, TCP_LEVEL, TCP_CORK, 0);
        assert_eq!(lengths(), [100]);

        let fd = nonblocking();
        let syn = connect(fd, 7002);
        set(fd, TCP_LEVEL, TCP_CORK, 1);
        set(fd, SOL_SOCKET, SO_SNDBUF, 8000);
        set(fd, TCP_LEVEL, TCP_WINDOW_CLAMP, 3000);
        answer(&syn);
        heard();
        write(fd, 100);
        assert_eq!(lengths(), []);
        set(fd, TCP_LEVEL, TCP_CORK, 0);
        assert_eq!(lengths(), [100]);
        assert_eq!(write(fd, 60_000), 7900);
    });
}

#[test]
fn a_listener_hands_its_options_down() {
    run(|| {
        plug();
        let server = listen(81, 5);
        set(server, TCP_LEVEL, TCP_CORK, 1);
        Far::connect(81, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        write(fd, 100);
        assert_eq!(lengths(), []);
    });
}

#[test]
fn who_reads_no_more_resets_what_comes() {
    run(|| {
        plug();
        let server = listen(82, 5);
        let mut far = Far::connect(82, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        sys!(shutdown, fd, SHUT_RDWR).unwrap();
        assert!(one().flags.contains(Flags::FIN));
        far.send(Flags::PSH, b"late");
        assert!(one().flags.contains(Flags::RST));
    });
}

/// Sets the MTU.
fn set_mtu(mtu: u32) {
    let mut request = [0; 40];
    request[..4].copy_from_slice(b"eth0");
    request[16..20].copy_from_slice(&mtu.to_ne_bytes());
    let fd = sys!(socket, AF_INET, SOCK_DGRAM, 0).unwrap();
    sys!(ioctl, fd, linux_raw_sys::ioctl::SIOCSIFMTU, put(&request)).unwrap();
}

#[test]
fn an_answer_to_syn_says_what_the_way_takes() {
    run(|| {
        plug();
        let server = listen(83, 5);
        set_mtu(1000);
        let answer = Far::new(83, 4000).open();
        set_mtu(1500);
        assert_eq!(answer.options.mss, Some(960));
        set(server, TCP_LEVEL, TCP_MAXSEG, 700);
        assert_eq!(Far::new(83, 4001).open().options.mss, Some(700));
    });
}

/// Reports, with this ICMP kind and code, that a packet from this machine did not arrive.
fn report(what: [u8; 2], packet: &[u8]) {
    let message = ip::icmp::error(what, 0, packet).unwrap();
    let mut message = message.to_vec();
    ip::icmp::seal(&mut message, PEER.into(), OWN.into());
    give(1, &message);
}

#[test]
fn an_answer_to_syn_that_arrives_nowhere_is_forgotten() {
    run(|| {
        plug();
        listen(84, 5);
        for (port, what) in (4000..).zip([[3, 1], [3, 13], [11, 0], [3, 3], [12, 0]]) {
            let mut far = Far::new(84, port);
            say(&far.header(Flags::SYN), &[]);
            let answer = packets().pop().unwrap();
            let (header, _) = Header::parse(&answer[20..]).unwrap();
            far.seq += 1;
            far.ack = header.seq.wrapping_add(1);
            report(what, &answer);
            say(&far.header(Flags::ACK), &[]);
            let is_forgotten = heard().iter().any(|sent| sent.0.flags.contains(Flags::RST));
            assert_eq!(is_forgotten, what[0] != 3 || what[1] == 1, "{what:?}");
        }
    });
}

#[test]
fn what_came_early_from_beyond_fin_is_not_read() {
    run(|| {
        plug();
        let server = listen(85, 5);
        let mut far = Far::connect(85, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        let mut beyond = far;
        beyond.seq += 2;
        beyond.send(Flags::PSH, b"more");
        far.send(Flags::FIN, b"ab");
        let bytes = reserve(10);
        assert_eq!(sys!(read, fd, bytes, 10), Ok(2));
        assert_eq!(peek(bytes, 2), b"ab");
        assert_eq!(sys!(read, fd, bytes, 10), Ok(0));
    });
}

#[test]
fn bytes_behind_a_datagram_are_no_part_of_it() {
    run(|| {
        plug();
        let fd = sys!(socket, AF_INET, SOCK_DGRAM, 0).unwrap();
        sys!(bind, fd, address(OWN, 90), 16).unwrap();
        let [from, to] = [(PEER, 91), (OWN, 90)].map(|end| end.into());
        for summed in [true, false] {
            let head = ip::udp::header(from, to, b"hello", summed);
            give(17, &[&head[..], b"hello, and more"].concat());
            let bytes = reserve(20);
            assert_eq!(sys!(recvfrom, fd, bytes, 20, MSG_DONTWAIT, 0, 0), Ok(5));
        }
    });
}

#[test]
fn numbers_of_datagrams_say_nothing_of_others() {
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 3);
    run(|| {
        plug();
        let fd = sys!(socket, AF_INET, SOCK_DGRAM, 0).unwrap();
        set(fd, 0, IP_MTU_DISCOVER, 0);
        let send = |to: Ipv4Addr| {
            sys!(sendto, fd, put(b"x"), 1, 0, address(to, 9), 16).unwrap();
            // The first packet waits for the neighbour's card.
            let sent = [packets(), packets()].concat();
            u16::from_be_bytes([sent[0][4], sent[0][5]])
        };
        let numbers: Vec<_> = (0..10).map(|_| [send(PEER), send(OTHER)]).collect();
        assert!(!numbers.iter().all(|[a, b]| a.wrapping_add(1) == *b));
    });
}

/// The columns of eth0 in /proc/net/dev, after its name.
fn counts() -> Vec<u64> {
    let fd = sys!(openat, linux_raw_sys::general::AT_FDCWD, "/proc/net/dev", 0).unwrap();
    let bytes = reserve(2000);
    let len = sys!(read, fd, bytes, 2000).unwrap();
    let text = String::from_utf8(peek(bytes, len)).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.split_once("eth0:"))
        .unwrap();
    line.1
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

#[test]
fn frames_that_the_card_loses_are_counted() {
    run(|| {
        plug();
        let fd = sys!(socket, AF_INET, SOCK_DGRAM, 0).unwrap();
        sys!(connect, fd, address(PEER, 9), 16).unwrap();
        write(fd, 1);
        packets();
        packets();
        let before = counts();
        for _ in 0..1010 {
            write(fd, 1);
        }
        let after = counts();
        assert_eq!([9, 11].map(|at| after[at] - before[at]), [1000, 10]);
        packets();
    });
}

#[test]
fn a_listener_that_was_shut_down_listens_again() {
    run(|| {
        plug();
        let server = listen(86, 0);
        for port in 4000..4003 {
            Far::connect(86, port);
            sys!(shutdown, server, SHUT_RD).unwrap();
            assert!(one().flags.contains(Flags::RST));
            say(&Far::new(86, 5000).header(Flags::SYN), &[]);
            assert!(one().flags.contains(Flags::RST));
            sys!(listen, server, 0).unwrap();
        }
        sys!(shutdown, server, SHUT_RD).unwrap();
        connect_from(server);
    });
}

fn connect_from(fd: usize) {
    let flags = linux_raw_sys::general::O_NONBLOCK;
    sys!(fcntl, fd, linux_raw_sys::general::F_SETFL, flags).unwrap();
    assert_eq!(connect(fd, 7003).source, 86);
}

#[test]
fn a_listener_forgets_who_was_half_open() {
    run(|| {
        plug();
        let server = listen(188, 5);
        let mut far = Far::new(188, 4000);
        far.open();
        sys!(shutdown, server, SHUT_RD).unwrap();
        // No SYN-ACK is sent again for a port that nobody has.
        sys!(
            nanosleep,
            put(&[100u64, 0].map(u64::to_ne_bytes).concat()),
            0
        )
        .unwrap();
        let own = || heard().into_iter().filter(|sent| sent.0.source == 188);
        assert_eq!(own().count(), 0);
        sys!(listen, server, 5).unwrap();
        say(&far.header(Flags::ACK), &[]);
        // The neighbour's entry may be too old.
        let answer: Vec<_> = own().chain(own()).collect();
        assert_eq!(answer.len(), 1);
        assert!(answer[0].0.flags.contains(Flags::RST));
    });
}

/// Seconds of CLOCK_MONOTONIC.
fn now() -> u64 {
    let time = reserve(16);
    sys!(clock_gettime, 1, time).unwrap();
    u64::from_ne_bytes(peek(time, 8).try_into().unwrap())
}

/// A private mapping of the slow disk, none of whose pages is present.
fn slow_pages(count: usize) -> usize {
    const PRIVATE: usize = 2;
    let disk = sys!(openat, -100, "/slow", linux_raw_sys::general::O_RDWR, 0).unwrap();
    sys!(mmap, 0, count * 4096, 3, PRIVATE, disk, 0).unwrap()
}

#[test]
fn a_card_does_not_wait_for_a_program_that_waits_for_a_page() {
    run(|| {
        plug();
        slow_disk::plug(64).unwrap();
        sys!(mknodat, -100, "/slow", 0o60_600, 254 << 8).unwrap();
        let server = listen(189, 5);
        let mut far = Far::connect(189, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        let datagrams = sys!(socket, AF_INET, SOCK_DGRAM, 0).unwrap();
        sys!(bind, datagrams, address(OWN, 190), 16).unwrap();
        let datagram = |text: &[u8]| {
            let mut bytes = [&[0, 190, 0, 190, 0, 8 + text.len() as u8, 0, 0], text].concat();
            let sum = Sum::pseudo(IpAddr::V4(PEER), IpAddr::V4(OWN), 17, bytes.len());
            let sum = sum.with(&bytes).checksum();
            bytes[6..8].copy_from_slice(&sum.to_be_bytes());
            give(17, &bytes);
        };
        far.send(Flags::PSH, b"hello");
        datagram(b"first");
        let calls: [fn(usize, usize) -> bool; 3] = [
            |stream, _| sys!(read, stream, slow_pages(1), 10) == Ok(5),
            |_, datagrams| sys!(read, datagrams, slow_pages(1), 10) == Ok(5),
            |stream, _| sys!(write, stream, slow_pages(1), 4096) == Ok(4096),
        ];
        for call in calls {
            fork(move || assert!(call(fd, datagrams))).unwrap();
        }
        sys!(nanosleep, put(&[1u64, 0].map(u64::to_ne_bytes).concat()), 0).unwrap();
        let before = now();
        far.send(Flags::PSH, b" again");
        datagram(b"second");
        assert!(now() < before + 60, "the card waited");
        let status = reserve(4);
        for _ in calls {
            sys!(wait4, -1, status, 0, 0).unwrap();
            assert_eq!(peek(status, 4), [0; 4]);
        }
        assert!(
            now() >= before + slow_disk::READ - 60,
            "the pages were slow"
        );
        let bytes = reserve(10);
        assert_eq!(sys!(read, fd, bytes, 6), Ok(6));
        assert_eq!(peek(bytes, 6), b" again");
        assert_eq!(sys!(read, datagrams, bytes, 10), Ok(6));
        assert_eq!(peek(bytes, 6), b"second");
    });
}

#[test]
fn a_full_window_is_enough_for_a_poller() {
    run(|| {
        plug();
        let server = listen(87, 5);
        set(server, SOL_SOCKET, SO_RCVBUF, 5000);
        set(server, SOL_SOCKET, SO_RCVLOWAT, 50_000);
        let mut far = Far::connect(87, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        let readable = || {
            let entry = put(&[fd as u32, 1].map(u32::to_ne_bytes).concat());
            sys!(ppoll, entry, 1, put(&[0; 16]), 0, 0).unwrap() == 1
        };
        far.send(Flags::PSH, &[1; 1000]);
        assert!(!readable());
        for _ in 0..4 {
            far.send(Flags::PSH, &[1; 1000]);
        }
        assert!(readable());
    });
}

fn set_most_orphans(text: &str) {
    let path = "/proc/sys/net/ipv4/tcp_max_orphans";
    let fd = sys!(openat, linux_raw_sys::general::AT_FDCWD, path, 1).unwrap();
    sys!(write, fd, put(text.as_bytes()), text.len()).unwrap();
}

#[test]
fn a_connection_without_socket_needs_a_place() {
    run(|| {
        plug();
        let server = listen(88, 5);
        for (most, flag) in [("0", Flags::RST), ("4096", Flags::FIN)] {
            set_most_orphans(most);
            let far = Far::connect(88, if most == "0" { 4000 } else { 4001 });
            let fd = sys!(accept4, server, 0, 0, 0).unwrap();
            sys!(close, fd).unwrap();
            assert!(
                heard()
                    .iter()
                    .any(|(header, _)| header.flags.contains(flag))
            );
            // Later tests must not see it again.
            say(&far.header(Flags::RST), &[]);
        }
    });
}

/// Sets how much memory all connections may use, and returns the former limits.
fn set_memory(limits: &[u8]) -> Vec<u8> {
    use linux_raw_sys::general::{AT_FDCWD, O_RDWR};
    let fd = sys!(openat, AT_FDCWD, "/proc/sys/net/ipv4/tcp_mem", O_RDWR).unwrap();
    let bytes = reserve(100);
    let len = sys!(read, fd, bytes, 100).unwrap();
    let before = peek(bytes, len);
    sys!(pwrite64, fd, put(limits), limits.len(), 0).unwrap();
    before
}

#[test]
fn a_hole_is_filled_though_memory_is_short() {
    run(|| {
        plug();
        let server = listen(88, 5);
        let mut far = Far::connect(88, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        let mut early = far;
        for _ in 0..9 {
            early.seq += 1000;
            say(&early.header(Flags::ACK), &[2; 1000]);
        }
        heard();
        let before = set_memory(b"1 1 1");
        far.send(Flags::empty(), &[1; 1000]);
        let answer = heard();
        set_memory(&before);
        // The bytes that arrived early are no longer there.
        assert_eq!(answer[0].0.ack, far.seq);
        let bytes = reserve(20_000);
        assert_eq!(sys!(read, fd, bytes, 20_000), Ok(1000));
        for _ in 0..9 {
            far.send(Flags::PSH, &[2; 1000]);
        }
        assert_eq!(sys!(read, fd, bytes, 20_000), Ok(9000));
    });
}

/// The pages of memory that all connections use.
fn memory() -> usize {
    let fd = sys!(
        openat,
        linux_raw_sys::general::AT_FDCWD,
        "/proc/net/sockstat",
        0
    )
    .unwrap();
    let bytes = reserve(1000);
    let len = sys!(read, fd, bytes, 1000).unwrap();
    let text = String::from_utf8(peek(bytes, len)).unwrap();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn a_write_that_fails_has_no_memory() {
    run(|| {
        plug();
        let fd = nonblocking();
        answer(&connect(fd, 7004));
        let before = memory();
        assert_eq!(sys!(write, fd, 16, 15_000), Err(Errno::EFAULT));
        assert_eq!(memory(), before);
    });
}

#[test]
fn who_waits_for_more_than_memory_allows_is_told() {
    use linux_raw_sys::general::{EPOLL_CTL_ADD, EPOLLIN};
    run(|| {
        plug();
        let server = listen(91, 5);
        set(server, SOL_SOCKET, SO_RCVLOWAT, 20_000);
        let mut far = Far::connect(91, 4000);
        let fd = sys!(accept4, server, 0, 0, 0).unwrap();
        let poll = sys!(epoll_create1, 0).unwrap();
        let event = put(&[u64::from(EPOLLIN), 0].map(u64::to_ne_bytes).concat());
        sys!(epoll_ctl, poll, EPOLL_CTL_ADD, fd, event).unwrap();
        let told = || sys!(epoll_pwait, poll, reserve(16), 1, 0, 0, 8).unwrap();
        for _ in 0..4 {
            far.send(Flags::PSH, &[1; 1024]);
        }
        assert_eq!(told(), 0);
        let before = set_memory(b"1 1 1");
        far.send(Flags::PSH, &[1; 1024]);
        let count = told();
        set_memory(&before);
        assert_eq!(count, 1);
    });
}

#[test]
fn a_write_ends_at_the_first_bad_page() {
    run(|| {
        let pair = reserve(8);
        sys!(socketpair, AF_UNIX, SOCK_STREAM, 0, pair).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        // A page that was never touched, and none behind it.
        let page = sys!(mmap, 0, 8192, 3, 0x22, usize::MAX, 0).unwrap();
        sys!(munmap, page + 4096, 4096).unwrap();
        assert_eq!(sys!(write, from, page + 4000, 200), Ok(96));
        assert_eq!(sys!(write, from, page + 4096, 200), Err(Errno::EFAULT));
        assert_eq!(sys!(read, to, page + 4090, 96), Ok(6));
        assert_eq!(sys!(read, to, page + 4096, 96), Err(Errno::EFAULT));
        assert_eq!(sys!(read, to, page, 200), Ok(90));
    });
}
