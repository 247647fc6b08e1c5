//! The socket tables in /proc/net, in Linux's columns: addresses, states, queues and owners.

use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use crate::inet;

/// Runs this part.
pub fn run() {
    internet();
    local();
}

fn inode(file: &impl AsRawFd) -> u64 {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::metadata(path).map_or(0, |about| about.st_ino())
}

/// Prints a table's titles, and the lines of the sockets with these inodes, in this order. Leaves
/// out the inode column `at`, the columns in `hidden`, which are kernel addresses, and those from
/// `end` on, which depend on the time.
fn table(name: &str, inodes: &[u64], at: usize, hidden: &[usize], end: usize) {
    let text = fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let mut lines = text.lines();
    println!("{name}: {}", lines.next().unwrap_or_default().trim_end());
    let lines: Vec<Vec<&str>> = lines
        .map(|line| line.split_whitespace().collect())
        .collect();
    for wanted in inodes {
        let of_socket = |line: &&Vec<&str>| line.get(at) == Some(&wanted.to_string().as_str());
        let Some(line) = lines.iter().find(of_socket) else {
            println!("  none");
            continue;
        };
        let shown = line.iter().enumerate().take(end);
        let shown = shown.filter(|(column, _)| *column != at && !hidden.contains(column));
        let shown: Vec<&str> = shown.map(|(_, text)| *text).collect();
        println!("  {} of {}", shown.join(" "), line.len());
    }
}

/// Prints the length of each line, for tables that pad lines.
fn width(name: &str) {
    let text = fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let mut lengths: Vec<usize> = text.lines().map(str::len).collect();
    lengths.sort_unstable();
    lengths.dedup();
    println!("{name} has lines of {lengths:?}");
}

fn internet() {
    let listener = TcpListener::bind("127.0.0.1:4100").expect("a listener");
    let pending = TcpStream::connect("127.0.0.1:4100").expect("a connection");
    let (mut ours, _theirs) = {
        let other = TcpListener::bind("127.0.0.1:4101").expect("a listener");
        let ours = TcpStream::connect("127.0.0.1:4101").expect("a connection");
        (ours, other.accept().expect("a connection").0)
    };
    ours.write_all(b"seven b").expect("room");
    let six = TcpListener::bind("[::1]:4102").expect("a listener");
    // Their local ports vary.
    table("tcp", &[inode(&listener)], 9, &[0, 11], 12);
    let port = ours.local_addr().map_or(0, |address| address.port());
    let hexadecimal = format!(":{port:04X}");
    let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    // Earlier connections may be in TIME_WAIT at the same port.
    let of_ours = |line: &&str| line.contains(&hexadecimal) && line.contains(":1005 ");
    let ends = text.lines().filter(of_ours);
    let mut ends: Vec<String> = ends
        .map(|line| {
            let columns: Vec<&str> = line.split_whitespace().skip(1).take(4).collect();
            columns.join(" ").replace(&hexadecimal, ":any")
        })
        .collect();
    ends.sort_unstable();
    ends.iter().for_each(|end| println!("  {end}"));
    width("tcp");
    table("tcp6", &[inode(&six)], 9, &[0, 11], 12);
    drop(pending);

    let bound = UdpSocket::bind("127.0.0.1:4103").expect("a socket");
    let connected = UdpSocket::bind("127.0.0.1:4104").expect("a socket");
    connected.connect("127.0.0.1:4103").expect("a peer");
    let six = UdpSocket::bind("[::]:4105").expect("a socket");
    table("udp", &[inode(&bound), inode(&connected)], 9, &[0, 11], 13);
    width("udp");
    table("udp6", &[inode(&six)], 9, &[0, 11], 13);
    // SAFETY: the descriptor is new, and nobody else owns it.
    let raw = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_RAW, 200)) };
    table("raw", &[inode(&raw)], 9, &[0, 11], 13);
    // SAFETY: the socket is open.
    unsafe { inet::connect(raw.as_raw_fd(), libc::AF_INET, 0x7f00_0001, 0) };
    table("raw", &[inode(&raw)], 9, &[0, 11], 13);
}

/// A descriptor that is closed elsewhere.
struct Fd(i32);

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> i32 {
        self.0
    }
}

fn local() {
    let listener = UnixListener::bind("listens").expect("a listener");
    let first = UnixStream::connect("listens").expect("a connection");
    let (second, _) = listener.accept().expect("a connection");
    let datagram = UnixDatagram::bind("datagrams").expect("a socket");
    let (one, other) = UnixDatagram::pair().expect("a pair");
    let none = File::open("/dev/null").expect("a file");
    let files: [&dyn AsRawFd; 7] = [&listener, &first, &second, &datagram, &one, &other, &none];
    let inodes = files.map(|file| inode(&Fd(file.as_raw_fd())));
    table("unix", &inodes, 6, &[0], usize::MAX);
}
