//! Packet sockets on a card, whose frames these tests create and read.

use std::net::Ipv4Addr;

use hosted::*;
use kernel::wire;
use linux_raw_sys::net::*;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const GROUP_MAC: [u8; 6] = [1, 0, 0x5e, 1, 2, 3];
const ALL_MAC: [u8; 6] = [0xff; 6];
const SOL_PACKET: u32 = 263;
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
const STATISTICS: u32 = 6;
const IGNORE_OUTGOING: u32 = 23;
const CARD: u32 = 2;
const ETH_P_ALL: u16 = 3;
/// A protocol that nobody has (ETH_P_PUP).
const PUP: u16 = 0x0200;
const OWN_KIND: u16 = 0x88b5;

fn plug() {
    wire::plug(OWN_MAC, OWN.into(), 24).unwrap();
    while wire::take().is_some() {}
}

fn socket(kind: u32, protocol: u16) -> usize {
    sys!(socket, AF_PACKET, kind, u32::from(protocol.to_be())).unwrap()
}

fn frame(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &PEER_MAC, &kind.to_be_bytes(), payload].concat()
}

/// A `struct sockaddr_ll`.
fn address(protocol: u16, index: u32, mac: [u8; 6]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[..2].copy_from_slice(&(AF_PACKET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&protocol.to_be_bytes());
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[11] = 6;
    bytes[12..18].copy_from_slice(&mac);
    bytes
}

fn bind(fd: usize, protocol: u16, index: u32) -> Result<usize, Errno> {
    sys!(bind, fd, put(&address(protocol, index, [0; 6])), 20)
}

/// The next frame, and the type, the protocol and the sender in its address.
fn next(fd: usize) -> Option<(Vec<u8>, u8, u16, Vec<u8>)> {
    let (bytes, from, len) = (reserve(2048), reserve(20), put(&20u32.to_ne_bytes()));
    let count = match sys!(recvfrom, fd, bytes, 2048, MSG_DONTWAIT, from, len) {
        Ok(count) => count,
        Err(error) => {
            assert_eq!(error, Errno::EAGAIN);
            return None;
        }
    };
    assert_eq!(peek(len, 4), 20u32.to_ne_bytes());
    let from = peek(from, 20);
    assert_eq!(from[..2], (AF_PACKET as u16).to_ne_bytes());
    assert_eq!(from[4..10], [CARD as u8, 0, 0, 0, 1, 0]);
    assert_eq!(from[11], 6);
    let protocol = u16::from_be_bytes([from[2], from[3]]);
    Some((
        peek(bytes, count),
        from[10],
        protocol,
        from[12..18].to_vec(),
    ))
}

fn request(fd: usize, name: u32, kind: u16) -> Result<usize, Errno> {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&CARD.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    sys!(setsockopt, fd, SOL_PACKET, name, put(&bytes), 16)
}

fn statistics(fd: usize) -> [u32; 2] {
    let (value, len) = (reserve(8), put(&8u32.to_ne_bytes()));
    sys!(getsockopt, fd, SOL_PACKET, STATISTICS, value, len).unwrap();
    let bytes = peek(value, 8);
    [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()))
}

#[test]
fn frames_are_seen_by_type_and_protocol() {
    run(|| {
        plug();
        let [all, own, other] = [ETH_P_ALL, OWN_KIND, PUP].map(|kind| socket(SOCK_RAW, kind));
        let bare = socket(SOCK_DGRAM, OWN_KIND);
        for (to, kind) in [(OWN_MAC, 0), (ALL_MAC, 1), (GROUP_MAC, 2)] {
            let sent = frame(to, OWN_KIND, b"frame");
            wire::give(&sent);
            let seen = (sent.clone(), kind, OWN_KIND, PEER_MAC.to_vec());
            assert_eq!(next(all), Some(seen.clone()));
            assert_eq!(next(own), Some(seen.clone()));
            assert_eq!(
                next(bare),
                Some((b"frame".to_vec(), seen.1, seen.2, seen.3))
            );
        }
        // Those for others only if that was asked for, as often as it was.
        let given = || wire::give(&frame(OTHER_MAC, OWN_KIND, b"other"));
        given();
        assert_eq!(next(all), None);
        request(other, ADD_MEMBERSHIP, 1).unwrap();
        request(other, ADD_MEMBERSHIP, 1).unwrap();
        request(other, DROP_MEMBERSHIP, 1).unwrap();
        given();
        assert_eq!(next(all).map(|seen| seen.1), Some(3));
        sys!(close, other).unwrap();
        given();
        assert_eq!(next(all), None);
        // Frames too short for a header are no packets.
        for len in 0..14 {
            wire::give(&[1; 14][..len]);
        }
        assert_eq!(next(all), None);
    });
}

#[test]
fn what_is_sent_is_seen_by_others() {
    run(|| {
        plug();
        let [sender, all, one] = [0, ETH_P_ALL, OWN_KIND].map(|kind| socket(SOCK_RAW, kind));
        bind(sender, ETH_P_ALL, CARD).unwrap();
        let sent = frame(PEER_MAC, OWN_KIND, b"sent");
        assert_eq!(sys!(write, sender, put(&sent), sent.len()), Ok(sent.len()));
        assert_eq!(wire::take(), Some(sent.clone()));
        assert_eq!(
            next(all).map(|seen| (seen.0, seen.1)),
            Some((sent.clone(), 4))
        );
        assert_eq!([next(sender), next(one)], [None, None]);
        let on = put(&1u32.to_ne_bytes());
        sys!(setsockopt, all, SOL_PACKET, IGNORE_OUTGOING, on, 4).unwrap();
        sys!(write, sender, put(&sent), sent.len()).unwrap();
        assert_eq!(next(all), None);
        wire::take();
        // Without a header, it is made from the address.
        let bare = socket(SOCK_DGRAM, 0);
        let to = put(&address(OWN_KIND, CARD, PEER_MAC));
        assert_eq!(sys!(sendto, bare, put(b"bare"), 4, 0, to, 20), Ok(4));
        let made = [&PEER_MAC[..], &OWN_MAC, &OWN_KIND.to_be_bytes(), b"bare"].concat();
        assert_eq!(wire::take(), Some(made));
        // Errors: no interface, a short frame, a long one, a short address.
        let long = put(&[0; 1519]);
        assert_eq!(sys!(sendto, bare, put(b"x"), 1, 0, 0, 0), Err(Errno::ENXIO));
        assert_eq!(sys!(write, sender, put(&sent), 13), Err(Errno::EINVAL));
        assert_eq!(sys!(write, sender, long, 1519), Err(Errno::EMSGSIZE));
        assert_eq!(sys!(write, sender, long, 1515), Err(Errno::EMSGSIZE));
        assert_eq!(
            sys!(sendto, bare, put(b"x"), 1, 0, to, 17),
            Err(Errno::EINVAL)
        );
    });
}

#[test]
fn a_full_socket_loses_and_counts_and_others_go_on() {
    run(|| {
        plug();
        let [full, other] = [ETH_P_ALL, ETH_P_ALL].map(|kind| socket(SOCK_RAW, kind));
        let small = put(&4096u32.to_ne_bytes());
        sys!(setsockopt, full, SOL_SOCKET, SO_RCVBUF, small, 4).unwrap();
        for _ in 0..100 {
            wire::give(&frame(OWN_MAC, OWN_KIND, &[0; 1000]));
            assert!(next(other).is_some());
        }
        let [received, dropped] = statistics(full);
        assert_eq!(received, 100);
        assert!((1..100).contains(&dropped), "{dropped}");
        assert_eq!(statistics(full), [0, 0]);
        let left = std::iter::from_fn(|| next(full)).count();
        assert_eq!(left, 100 - dropped as usize);
        assert_eq!(statistics(other), [100, 0]);
    });
}

#[test]
fn a_filter_decides_what_is_kept() {
    run(|| {
        plug();
        let fd = socket(SOCK_RAW, ETH_P_ALL);
        // ldh [12]; jeq OWN_KIND, 0, 1; ret 16; ret 0
        let code: [(u16, u8, u8, u32); 4] = [
            (0x28, 0, 0, 12),
            (0x15, 0, 1, OWN_KIND.into()),
            (0x06, 0, 0, 16),
            (0x06, 0, 0, 0),
        ];
        let code = code
            .map(|(code, t, f, k)| [&code.to_ne_bytes()[..], &[t, f], &k.to_ne_bytes()].concat());
        let code = put(&code.concat());
        let program = put(&[4usize, code].map(usize::to_ne_bytes).concat());
        sys!(setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, program, 16).unwrap();
        wire::give(&frame(OWN_MAC, PUP, b"dropped"));
        let sent = frame(OWN_MAC, OWN_KIND, b"cut off");
        wire::give(&sent);
        assert_eq!(next(fd).unwrap().0, sent[..16]);
        assert_eq!(next(fd), None);
        // A dropped frame is no lost one.
        assert_eq!(statistics(fd), [1, 0]);
    });
}

#[test]
fn ten_thousand_sockets_come_and_go() {
    run(|| {
        plug();
        let limit = put(&[20_000u64; 2].map(u64::to_ne_bytes).concat());
        sys!(prlimit64, 0, 7, limit, 0).unwrap();
        let sockets: Vec<usize> = (0..10_000).map(|at| socket(SOCK_RAW, at as u16)).collect();
        wire::give(&frame(OWN_MAC, 5000, b"one"));
        wire::give(&frame(OWN_MAC, OWN_KIND, b"none"));
        assert_eq!(next(sockets[5000]).unwrap().0[14..], *b"one");
        for fd in sockets {
            sys!(close, fd).unwrap();
        }
        wire::give(&frame(OWN_MAC, 5000, b"none"));
    });
}

fn set_flags(fd: usize, flags: u16) {
    let mut bytes = [0; 40];
    bytes[..4].copy_from_slice(b"eth0");
    bytes[16..18].copy_from_slice(&flags.to_ne_bytes());
    const SIOCSIFFLAGS: u32 = 0x8914;
    sys!(ioctl, fd, SIOCSIFFLAGS, put(&bytes)).unwrap();
}

#[test]
fn an_interface_that_goes_down_is_an_error() {
    run(|| {
        plug();
        let [bound, any] = [ETH_P_ALL, ETH_P_ALL].map(|kind| socket(SOCK_RAW, kind));
        bind(bound, ETH_P_ALL, CARD).unwrap();
        const FLAGS: u16 = 0x1002;
        set_flags(bound, FLAGS);
        let bytes = reserve(100);
        let receive = |fd| sys!(recvfrom, fd, bytes, 100, MSG_DONTWAIT, 0, 0);
        assert_eq!(receive(bound), Err(Errno::ENETDOWN));
        assert_eq!([bound, any].map(receive), [Err(Errno::EAGAIN); 2]);
        assert_eq!(sys!(write, bound, bytes, 20), Err(Errno::ENETDOWN));
        let again = socket(SOCK_RAW, 0);
        bind(again, ETH_P_ALL, CARD).unwrap();
        assert_eq!(receive(again), Err(Errno::ENETDOWN));
        wire::give(&frame(OWN_MAC, OWN_KIND, b"lost"));
        assert_eq!(receive(again), Err(Errno::EAGAIN));
        set_flags(bound, FLAGS | 1);
        while wire::take().is_some() {}
        for fd in [bound, any, again] {
            while receive(fd).is_ok() {}
        }
        wire::give(&frame(OWN_MAC, OWN_KIND, b"seen"));
        assert_eq!([bound, any, again].map(receive), [Ok(18); 3]);
    });
}
