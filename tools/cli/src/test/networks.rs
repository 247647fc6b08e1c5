//! The network of `stile run`: to servers on this machine's loopback address, and from it by a
//! forwarded port. Nothing leaves this machine.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use super::Report;
use super::command::{differs, run_script};
use crate::arch::Arch;
use crate::project::Project;

/// The number of bytes that a server here sends and receives.
const BODY: usize = 1 << 20;
/// The number of bytes in a file that is sent in datagrams.
const FILE: usize = 20_000;
/// The time limit for a machine to start serving.
const PATIENCE: Duration = Duration::from_secs(120);
const SET_UP: &str = "ifconfig eth0 | grep -o 'inet addr:[0-9.]*'
    route -n | grep UG | sed 's/  */ /g'
    cat /etc/resolv.conf
    ping -c 1 -q 10.0.2.2 | grep -o '1 packets received'
    ping -c 1 -q -s 4000 10.0.2.2 | grep -o '1 packets received'
    grep -c eth0 /proc/net/dev
    cat /sys/class/net/eth0/address";
const AS_SET: &str = "inet addr:10.0.2.15\n0.0.0.0 10.0.2.2 0.0.0.0 UG 0 0 0 eth0\n\
    nameserver 10.0.2.3\n1 packets received\n1 packets received\n1\n52:54:00:12:34:56\n";

type Case = fn(&Project, Arch) -> Result<Option<String>>;

/// Runs these tests.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    for (name, case) in [
        ("net-set-up", set_up as Case),
        ("net-fetch", fetch),
        ("net-send", send),
        ("net-refused", refused),
        ("net-datagrams", datagrams),
        ("net-port", port),
        ("net-bound", bound),
        ("net-dhcp", dhcp),
    ] {
        let name = format!("command/{}/{name}", arch.debian());
        if report.wants(&name) {
            match case(project, arch)? {
                None => report.passed(1),
                Some(how) => report.failed(&name, &how),
            }
        }
    }
    Ok(())
}

fn run(project: &Project, arch: Arch, options: &[String], script: &str) -> Result<Output> {
    let net = ["--net", "--timeout=100"].map(String::from);
    run_script(project, arch, &[&net, options].concat(), script)
}

fn body() -> Vec<u8> {
    (0..BODY).map(|at| b'a' + (at * 7 % 23) as u8).collect()
}

/// A file that the guest has as `/body`, until this is dropped.
struct Copied(PathBuf);

impl Copied {
    fn new(project: &Project, arch: Arch, bytes: &[u8]) -> Result<Self> {
        let folder = project.target.join("tmp");
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("net-body-{}-{}", arch.debian(), std::process::id()));
        std::fs::write(&path, bytes)?;
        Ok(Copied(path))
    }

    fn option(&self) -> String {
        format!("--copy={}:/body", self.0.display())
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

fn listen() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn set_up(project: &Project, arch: Arch) -> Result<Option<String>> {
    Ok(differs(&run(project, arch, &[], SET_UP)?, AS_SET))
}

/// Packet sockets: an address from QEMU's DHCP server, and the link-layer address of a neighbour.
fn dhcp(project: &Project, arch: Arch) -> Result<Option<String>> {
    let script = "printf '#!/bin/sh\necho $1 $ip\n' >/told && chmod +x /told
        ifconfig eth0 0.0.0.0
        udhcpc -i eth0 -n -q -f -s /told 2>/dev/null
        ifconfig eth0 10.0.2.15
        arping -c 1 -I eth0 10.0.2.2 2>/dev/null | grep -o 'Unicast reply from 10.0.2.2'";
    let told = "deconfig\nbound 10.0.2.15\nUnicast reply from 10.0.2.2\n";
    Ok(differs(&run(project, arch, &[], script)?, told))
}

/// A megabyte from a server here, twice.
fn fetch(project: &Project, arch: Arch) -> Result<Option<String>> {
    let (listener, port) = listen()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            _ = serve(client);
        }
    });
    let script = format!(
        "for i in 1 2; do wget -q -O - http://10.0.2.2:{port}/ | cmp - /body && echo same; done"
    );
    let file = Copied::new(project, arch, &body())?;
    let output = run(project, arch, &[file.option()], &script)?;
    Ok(differs(&output, "same\nsame\n"))
}

fn serve(mut client: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let _ = client.read(&mut request)?;
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
    client.write_all(head.as_bytes())?;
    client.write_all(&body())
}

/// A megabyte is sent to a server here, which reports how much it received.
fn send(project: &Project, arch: Arch) -> Result<Option<String>> {
    let (listener, port) = listen()?;
    let server = thread::spawn(move || -> std::io::Result<usize> {
        let (mut client, _) = listener.accept()?;
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes)?;
        Ok(if bytes.iter().all(|&byte| byte == 0) {
            bytes.len()
        } else {
            0
        })
    });
    let script = format!("head -c {BODY} /dev/zero | nc 10.0.2.2 {port}; echo $?");
    let output = run(project, arch, &[], &script)?;
    let told = differs(&output, "0\n");
    if told.is_some() {
        return Ok(told);
    }
    let came = server.join().ok().context("the server")??;
    Ok((came != BODY).then(|| format!("{came} bytes came")))
}

/// Nobody has the port; the client gets an error.
fn refused(project: &Project, arch: Arch) -> Result<Option<String>> {
    // A socket that does not listen has the port.
    let held = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let port = SocketAddrV4::try_from(getsockname(&held)?)?.port();
    let script = format!("nc 10.0.2.2 {port} </dev/null 2>&1 | grep -o 'refused'");
    Ok(differs(&run(project, arch, &[], &script)?, "refused\n"))
}

/// A socket that is bound to `lo` does not leave the machine.
fn bound(project: &Project, arch: Arch) -> Result<Option<String>> {
    let script = "for to in 127.0.0.1 10.0.2.15 10.0.2.2; do
        ping -c 1 -q -W 9 -I lo $to 2>&1 | grep -o 'unreachable\\|1 packets received'
    done";
    let expected = "1 packets received\n1 packets received\nunreachable\n";
    Ok(differs(&run(project, arch, &[], script)?, expected))
}

/// A file by TFTP (RFC 1350), a datagram at a time each way.
fn datagrams(project: &Project, arch: Arch) -> Result<Option<String>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    thread::spawn(move || tell_file(&socket));
    let script = format!("tftp -g -l - -r file 10.0.2.2 {port} | cmp - /body && echo same");
    let file = Copied::new(project, arch, &body()[..FILE])?;
    let output = run(project, arch, &[file.option()], &script)?;
    Ok(differs(&output, "same\n"))
}

/// Answers a request for a file with its first block, and each acknowledgment with the next one.
fn tell_file(socket: &UdpSocket) -> std::io::Result<()> {
    const BLOCK: usize = 512;
    let (mut bytes, body) = ([0; 1024], body());
    loop {
        let (length, from) = socket.recv_from(&mut bytes)?;
        let done = match bytes[..length] {
            [0, 1, ..] => 0,
            [0, 4, high, low] => usize::from(u16::from_be_bytes([high, low])),
            _ => continue,
        };
        if done * BLOCK <= FILE {
            let data = &body[done * BLOCK..FILE.min((done + 1) * BLOCK)];
            let number = (done as u16 + 1).to_be_bytes();
            socket.send_to(&[&[0, 3], &number[..], data].concat(), from)?;
        }
    }
}

/// A server in the guest is reached through a port of this machine.
fn port(project: &Project, arch: Arch) -> Result<Option<String>> {
    // Keeps connections of other programs from getting one of these ports meanwhile.
    let (_, any) = listen()?;
    let mut ports = 20_000 + any % 10_000..32_000;
    let here = ports.find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    let here = here.context("a port")?;
    let client = thread::spawn(move || {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(answer) = ask(here) {
                return answer;
            }
            thread::sleep(Duration::from_millis(200));
        }
        String::new()
    });
    let options = [format!("--port={here}:80")];
    let output = run(project, arch, &options, "echo served | nc -l -p 80")?;
    let answer = client.join().unwrap_or_default();
    let wrong = (answer != "served\n").then(|| format!("the answer: {answer:?}"));
    Ok(differs(&output, "asked\n").or(wrong))
}

/// Asks the guest; `None` as long as there is no server.
fn ask(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"asked\n").ok()?;
    stream.shutdown(std::net::Shutdown::Write).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}
