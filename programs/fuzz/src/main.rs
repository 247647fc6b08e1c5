//! Makes random system calls as an ordinary user: the same ones for the same seed.
//!
//! `fuzz results SEED FIRST COUNT` prints the calls of some programs with their results, and
//! `fuzz digest SEED FIRST COUNT` a line for each program, which is the same on Linux.

mod arena;
mod blob;
mod child;
mod program;
mod run;
mod values;

use std::fmt::Write;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use run::{End, Outcome};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
    let (Some(seed), Some(first), Some(count)) = (number(1), number(2), number(3)) else {
        panic!("usage: fuzz results|digest SEED FIRST COUNT");
    };
    mount();
    switch_on_loopback();
    run::prepare();
    for index in first..first + count {
        let text = describe(&run::run(seed, index));
        match words[0].as_str() {
            "results" => print!("program {index}\n{text}"),
            _ => println!("program {index}: {:08x}", digest(&text)),
        }
    }
}

/// Mounts the file system that all programs work in, so that it is the same on every kernel.
fn mount() {
    // On Linux, everyone may write to the root.
    std::fs::set_permissions("/", Permissions::from_mode(0o755)).expect("the root");
    std::fs::create_dir_all("/tmp/fuzz").expect("a folder");
    let (source, kind) = (c"tmpfs".as_ptr(), c"tmpfs".as_ptr());
    // SAFETY: the call reads strings.
    let done = unsafe {
        libc::mount(
            source,
            c"/tmp/fuzz".as_ptr(),
            kind,
            0,
            c"mode=755,size=64m".as_ptr().cast(),
        )
    };
    assert_eq!(done, 0, "mount");
}

/// Linux leaves the interface off.
fn switch_on_loopback() {
    // SAFETY: the request is all zeros but for a name and flags, which the call reads.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[..2].copy_from_slice(&[b'l', b'o'].map(|byte| byte as _));
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        assert_eq!(
            libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &request),
            0,
            "lo"
        );
        libc::close(socket);
    }
}

/// From which value on one is not shown.
const MUCH: i64 = 4096;

/// The calls of a program with their results.
fn describe(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut line = |number: usize, value: &dyn std::fmt::Display| {
        let step = &outcome.steps[number];
        writeln!(text, "  {number} {step} = {value}").expect("a string grows");
    };
    for (number, (step, &value)) in outcome.steps.iter().zip(&outcome.values).enumerate() {
        match value {
            _ if -value == i64::from(libc::EINTR) => line(number, &"blocked"),
            ..0 => line(
                number,
                &abi::errno_name(-value as usize).unwrap_or("an unknown error"),
            ),
            _ if step.has_own_value() => line(number, &"a value"),
            // How much a full queue takes differs.
            MUCH.. => line(number, &"much"),
            _ => line(number, &value),
        }
    }
    let next = outcome.values.len();
    match outcome.end {
        End::Complete | End::Blocked => {}
        End::Killed(signal) if next < outcome.steps.len() => {
            line(next, &format!("killed by {signal}"))
        }
        End::Killed(signal) => writeln!(text, "  killed by {signal}").expect("a string grows"),
        End::Stopped(signal) => line(next, &format!("stopped by {signal}")),
        End::Hung => line(next, &"hung"),
    }
    text
}

/// FNV-1a, by which two texts are compared.
fn digest(text: &str) -> u32 {
    let step = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}
