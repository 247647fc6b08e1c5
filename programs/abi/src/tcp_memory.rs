//! The limit on the memory of all TCP connections together (`net.ipv4.tcp_mem`).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::time_wait::{content, write};

const MEMORY: &str = "tcp_mem";
/// The third limit is 8 MiB; Linux gives each connection some more.
const FEW: &str = "1024 1536 2048";
const MOST: usize = 32 << 20;
/// More connections than the limit suffices for.
const MANY: usize = 300;

type Ends = (TcpStream, TcpStream);

/// Runs this part.
pub fn run() {
    let before = content(MEMORY);
    usual(&before);
    write(MEMORY, FEW);
    println!("set: {:?}", content(MEMORY));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut connections: Vec<_> = (0..MANY).map(|_| connect(&listener)).collect();
    let taken: usize = connections.iter_mut().map(fill).sum();
    println!("some are taken: {}", taken > MOST / 32);
    println!("no more than may be: {}", taken < MOST);
    waiting(connections);
    flows(connect(&listener));
    write(MEMORY, &before);
    flows(connect(&listener));
}

/// The default limits have the ratio 3 : 4 : 6.
fn usual(limits: &str) {
    let limits: Vec<_> = limits
        .split_whitespace()
        .map(|pages| pages.parse().unwrap_or(0))
        .collect();
    let [first, middle, last] = limits[..] else {
        return println!("not three limits");
    };
    println!(
        "first: {}, last: {}",
        first == middle / 4 * 3,
        last == 2 * first
    );
}

fn connect(listener: &TcpListener) -> Ends {
    let client = TcpStream::connect(listener.local_addr().expect("an address"));
    let (server, _) = listener.accept().expect("a connection");
    (client.expect("a connection"), server)
}

/// Writes as much as possible without waiting.
fn fill((client, _): &mut Ends) -> usize {
    client.set_nonblocking(true).expect("a flag");
    let bytes = [5; 30_000];
    std::iter::from_fn(|| client.write(&bytes).ok()).sum()
}

/// A writer that waits for memory continues when others free it, although its peer reads nothing.
fn waiting(mut connections: Vec<Ends>) {
    let (mut client, server) = connections.pop().expect("many");
    client.set_nonblocking(false).expect("a flag");
    let writer = thread::spawn(move || client.write_all(&[6; 20_000]).map(|()| client));
    drop(connections);
    let done = writer.join().expect("no panic");
    println!("written: {}", done.is_ok());
    drop(server);
}

/// All written data arrives.
fn flows((mut client, mut server): Ends) {
    const LENGTH: usize = 1 << 20;
    let writer = thread::spawn(move || client.write_all(&vec![7; LENGTH]));
    let mut bytes = Vec::new();
    let count = server.read_to_end(&mut bytes).expect("all bytes");
    let done = writer.join().expect("no panic");
    println!("{count} came, {}", done.is_ok());
}
