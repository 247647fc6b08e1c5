//! Permissions: names in sticky folders, programs, ports.

use hosted::*;
use linux_raw_sys::general::*;
use linux_raw_sys::net::*;

fn become_user(user: u32) {
    sys!(setresuid, user, user, user).unwrap();
}

fn make(path: &str) {
    let fd = sys!(openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0o666).unwrap();
    sys!(close, fd).unwrap();
}

/// The results of a child that is `user`.
fn as_user(
    user: u32,
    what: impl FnOnce() -> Result<usize, Errno> + Send + 'static,
) -> Result<usize, Errno> {
    let child = fork(move || {
        become_user(user);
        let told = what().map_or_else(|error| error.0 as usize, |_| 0);
        sys!(exit_group, told).unwrap();
    });
    let status = reserve(4);
    sys!(wait4, child.unwrap(), status, 0, 0).unwrap();
    match peek(status, 2)[..] {
        [0, 0] => Ok(0),
        [0, error] => Err(Errno(error.into())),
        _ => panic!("ended by a signal"),
    }
}

#[test]
fn a_sticky_folder_keeps_names_for_their_owners() {
    run(|| {
        // The folder's owner, whether it is sticky, the name's owner, the caller.
        let mut tried = 0;
        let users = [(1, 2, 3), (1, 2, 2), (1, 2, 1), (0, 2, 3), (0, 2, 0)];
        let users = &users[..if cfg!(miri) { 2 } else { 5 }];
        for sticky in [true, false] {
            for &(folder, name, who) in users {
                tried += 1;
                let path = format!("/tmp/folder{tried}");
                sys!(mkdirat, AT_FDCWD, &*path, 0o777).unwrap();
                sys!(
                    fchmodat,
                    AT_FDCWD,
                    &*path,
                    if sticky { 0o1777 } else { 0o777 }
                )
                .unwrap();
                for file in ["a", "b", "c"] {
                    let file = format!("{path}/{file}");
                    make(&file);
                    sys!(fchownat, AT_FDCWD, &*file, name, name, 0).unwrap();
                }
                sys!(fchownat, AT_FDCWD, &*path, folder, folder, 0).unwrap();
                let may = !sticky || who == name || who == folder || who == 0;
                let expected = if may { Ok(0) } else { Err(Errno::EPERM) };
                let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("{path}/{name}"));
                let what = format!("{sticky} {folder} {name} {who}");
                let removed = as_user(who, move || sys!(unlinkat, AT_FDCWD, &*a, 0));
                assert_eq!(removed, expected, "{what}");
                let renamed = as_user(who, move || {
                    sys!(renameat2, AT_FDCWD, &*b, AT_FDCWD, &*d, 0)
                });
                assert_eq!(renamed, expected, "{what}");
                // Over a name that another user owns.
                let (own, over) = (format!("/tmp/own{tried}"), c);
                make(&own);
                sys!(fchownat, AT_FDCWD, &*own, who, who, 0).unwrap();
                sys!(fchmodat, AT_FDCWD, "/tmp", 0o777).unwrap();
                let replaced = as_user(who, move || {
                    sys!(renameat2, AT_FDCWD, &*own, AT_FDCWD, &*over, 0)
                });
                assert_eq!(replaced, expected, "{what}");
            }
        }
    });
}

#[test]
fn nobody_executes_what_nobody_may() {
    run(|| {
        make("/tmp/executed");
        let execute = |user: u32, mode: u32| {
            sys!(fchmodat, AT_FDCWD, "/tmp/executed", mode).unwrap();
            sys!(fchownat, AT_FDCWD, "/tmp/executed", 5, 5, 0).unwrap();
            let path = put(b"/tmp/executed\0");
            as_user(user, move || {
                let arguments = put(&[path, 0].map(usize::to_ne_bytes).concat());
                sys!(execve, path, arguments, 0)
            })
        };
        // The file is empty: ENOEXEC means that the caller may execute it.
        let (may, not) = (Err(Errno::ENOEXEC), Err(Errno::EACCES));
        let all = [
            (0, 0o666, not),
            (6, 0o001, may),
            (0, 0o100, may),
            (0, 0o010, may),
            (0, 0o001, may),
            (0, 0o000, not),
            (5, 0o011, not),
            (5, 0o100, may),
            (6, 0o110, not),
        ];
        let some = &all[..if cfg!(miri) { 2 } else { all.len() }];
        for &(user, mode, expected) in some {
            assert_eq!(execute(user, mode), expected, "{user} {mode:o}");
        }
        // The same holds for access(2), which asks for the folder's rights as well.
        let access = |mode: u32, wanted: u32| {
            sys!(fchmodat, AT_FDCWD, "/tmp/executed", mode).unwrap();
            sys!(faccessat, AT_FDCWD, "/tmp/executed", wanted)
        };
        assert_eq!(access(0, 6), Ok(0));
        assert_eq!(access(0o666, 1), not);
        assert_eq!(access(0o001, 1), Ok(0));
        sys!(mkdirat, AT_FDCWD, "/tmp/searched", 0).unwrap();
        assert_eq!(sys!(faccessat, AT_FDCWD, "/tmp/searched", 7), Ok(0));
    });
}

/// A socket bound to any address at `port`.
fn bound(family: u32, kind: u32, port: u16, only: Option<u32>) -> Result<usize, Errno> {
    let fd = sys!(socket, family, kind, 0).unwrap();
    if let Some(only) = only {
        let value = put(&only.to_ne_bytes());
        sys!(setsockopt, fd, IPPROTO_IPV6 as u32, IPV6_V6ONLY, value, 4).unwrap();
    }
    let mut address = (family as u16).to_ne_bytes().to_vec();
    address.extend(port.to_be_bytes());
    address.resize(if family == AF_INET { 16 } else { 28 }, 0);
    sys!(bind, fd, &*address, address.len())?;
    Ok(fd)
}

#[test]
fn a_port_of_both_families_is_taken_unless_one_has_only_its_own() {
    run(|| {
        let mut port = 2000;
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            for (only, first) in [(0, AF_INET6), (1, AF_INET6), (0, AF_INET), (1, AF_INET)] {
                port += 1;
                let second = AF_INET + AF_INET6 - first;
                let bind = |family| bound(family, kind, port, (family == AF_INET6).then_some(only));
                assert!(bind(first).is_ok());
                let other = bind(second);
                assert_eq!(other.is_ok(), only == 1, "{kind} {only} {first}: {other:?}");
                assert_eq!(bind(first), Err(Errno::EADDRINUSE));
            }
        }
    });
}

#[test]
fn a_socket_of_ipv6_alone_knows_no_ipv4() {
    run(|| {
        for (only, bound_so, sent) in [
            (0, Ok(0), Ok(1)),
            (1, Err(Errno::EINVAL), Err(Errno::ENETUNREACH)),
        ] {
            let fd = sys!(socket, AF_INET6, SOCK_DGRAM, 0).unwrap();
            let value = put(&u32::to_ne_bytes(only));
            sys!(setsockopt, fd, IPPROTO_IPV6 as u32, IPV6_V6ONLY, value, 4).unwrap();
            // ::ffff:127.0.0.1
            let mut address = (AF_INET6 as u16).to_ne_bytes().to_vec();
            address.extend(3000u16.to_be_bytes());
            address.resize(18, 0);
            address.extend([0xff, 0xff, 127, 0, 0, 1, 0, 0, 0, 0]);
            assert_eq!(sys!(sendto, fd, "x", 1, 0, &*address, 28), sent);
            let other = sys!(socket, AF_INET6, SOCK_DGRAM, 0).unwrap();
            sys!(
                setsockopt,
                other,
                IPPROTO_IPV6 as u32,
                IPV6_V6ONLY,
                value,
                4
            )
            .unwrap();
            assert_eq!(sys!(bind, other, &*address, 28), bound_so);
        }
    });
}

/// A datagram socket bound to any address at `port`, which it shares by `option`.
fn sharing(port: u16, option: u32) -> usize {
    let fd = sys!(socket, AF_INET, SOCK_DGRAM | O_NONBLOCK, 0).unwrap();
    let on = put(&1u32.to_ne_bytes());
    sys!(setsockopt, fd, SOL_SOCKET, option, on, 4).unwrap();
    sys!(bind, fd, &*at([0; 4], port), 16).unwrap();
    fd
}

/// `struct sockaddr_in`
fn at(ip: [u8; 4], port: u16) -> Vec<u8> {
    let family = (AF_INET as u16).to_ne_bytes();
    [&family[..], &port.to_be_bytes(), &ip, &[0; 8]].concat()
}

/// Sends a datagram; returns the numbers of the sockets that received it.
fn takers(sender: usize, to: &[u8], sockets: &[usize]) -> Vec<usize> {
    sys!(sendto, sender, "x", 1, 0, to, 16).unwrap();
    let room = reserve(8);
    let got = |number: &usize| sys!(read, sockets[*number], room, 8) == Ok(1);
    (0..sockets.len()).filter(got).collect()
}

#[test]
fn of_many_sockets_at_a_port_none_is_overlooked() {
    const MANY: usize = 300;
    run(|| {
        let sender = sys!(socket, AF_INET, SOCK_DGRAM, 0).unwrap();
        let on = put(&1u32.to_ne_bytes());
        sys!(setsockopt, sender, SOL_SOCKET, SO_BROADCAST, on, 4).unwrap();
        sys!(bind, sender, &*at([127, 0, 0, 1], 4000), 16).unwrap();
        let here = at([127, 0, 0, 1], 4001);
        let sockets: Vec<_> = (0..MANY).map(|_| sharing(4001, SO_REUSEADDR)).collect();
        assert_eq!(takers(sender, &here, &sockets), [MANY - 1]);
        let everywhere = at([127, 255, 255, 255], 4001);
        assert_eq!(takers(sender, &everywhere, &sockets).len(), MANY);
        // Sockets connected elsewhere receive nothing from this sender.
        for socket in &sockets[100..] {
            sys!(connect, *socket, &*at([127, 0, 0, 1], 4002), 16).unwrap();
        }
        assert_eq!(takers(sender, &here, &sockets), [99]);
        sys!(connect, sockets[150], &*at([127, 0, 0, 1], 4000), 16).unwrap();
        assert_eq!(takers(sender, &here, &sockets), [150]);

        let here = at([127, 0, 0, 1], 4003);
        let sockets: Vec<_> = (0..MANY).map(|_| sharing(4003, SO_REUSEPORT)).collect();
        let first = takers(sender, &here, &sockets);
        assert_eq!(takers(sender, &here, &sockets), first);
        sys!(connect, sockets[0], &*at([127, 0, 0, 1], 4002), 16).unwrap();
        let first = takers(sender, &here, &sockets);
        assert_eq!(first.len(), 1);
        assert_eq!(takers(sender, &here, &sockets), first);
    });
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn an_echo_is_answered_if_its_checksum_is_right() {
    run(|| {
        let fd = sys!(socket, AF_INET, SOCK_RAW | O_NONBLOCK, 1).unwrap();
        let mut to = (AF_INET as u16).to_ne_bytes().to_vec();
        to.extend([0, 0, 127, 0, 0, 1]);
        to.resize(16, 0);
        let (to, room) = (put(&to), reserve(2048));
        // Also of an odd length, and one whose sum is carried twice.
        let lens = [8, 9, 10, 11, 64, 1001];
        let fills = [0xff, 0x7f, 1, 0];
        let (lens, fills) = match cfg!(miri) {
            true => (&lens[..2], &fills[..1]),
            false => (&lens[..], &fills[..]),
        };
        for &len in lens {
            for &fill in fills {
                for wrong in [0, 1] {
                    let mut echo = vec![fill; len];
                    echo[..8].copy_from_slice(&[8, 0, 0, 0, 1, 2, 3, 4]);
                    let sum = checksum(&echo) ^ wrong;
                    echo[2..4].copy_from_slice(&sum.to_be_bytes());
                    assert_eq!(sys!(sendto, fd, &*echo, len, 0, to, 16), Ok(len));
                    let mut answers = 0;
                    while let Ok(count) = sys!(recvfrom, fd, room, 2048, 0, 0, 0) {
                        let packet = peek(room, count);
                        let (header, body) = packet.split_at(20);
                        assert_eq!(checksum(header), 0);
                        if body[0] == 0 {
                            answers += 1;
                            assert_eq!(checksum(body), 0, "{len} {fill}");
                            assert_eq!(body[4..], echo[4..]);
                        }
                    }
                    assert_eq!(answers, 1 - u32::from(wrong), "{len} {fill}");
                }
            }
        }
    });
}
