//! The kernel log: /dev/kmsg, syslog(2), and permission to read it.

use std::fs;
use std::ptr;

use libc::{
    O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, POLLIN, SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_SET, c_int,
};

use crate::{error, in_child, path, pipes::ready, tell, tell_end, tell_ok};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        // Nothing here should appear on the console.
        tell("console off", libc::klogctl(6, ptr::null_mut(), 0));
        records();
        text();
        rights();
        waiting();
        tell("console on", libc::klogctl(7, ptr::null_mut(), 0));
        levels();
    }
}

unsafe fn open(flags: c_int) -> c_int {
    unsafe { libc::open(path(c"/dev/kmsg"), flags) }
}

/// Writes a record.
unsafe fn say(what: &str, text: &[u8]) {
    unsafe {
        let log = open(O_WRONLY);
        tell(
            what,
            libc::write(log, text.as_ptr().cast(), text.len()) as i64,
        );
        libc::close(log);
    }
}

/// Reads a record: prints its priority and its text; the rest differs from run to run.
unsafe fn record(what: &str, log: c_int, room: usize) {
    let mut bytes = [0u8; 4096];
    let count = unsafe { libc::read(log, bytes.as_mut_ptr().cast(), room) };
    if count < 0 {
        return println!("{what}: {}", error());
    }
    let text = String::from_utf8_lossy(&bytes[..count as usize]).into_owned();
    let (head, text) = text.split_once(';').unwrap_or_default();
    let priority = head.split(',').next().unwrap_or_default();
    println!("{what}: {priority} {text:?}");
}

unsafe fn records() {
    unsafe {
        let log = open(O_RDWR | O_NONBLOCK);
        tell("to its end", libc::lseek(log, 0, SEEK_END));
        ready("at its end", log, POLLIN);
        record("at its end", log, 4096);
        say("debug", b"<7>first\n");
        say("a facility", b"<31>second\nthird\n");
        say("no level", b"fourth");
        say("no number", b"<x>fifth");
        say("special", b"<15>a\\b\x01c\xc3\xbcd\n");
        say("nothing", b"<15>\n");
        say("too long", &[b'x'; 2000]);
        ready("before them", log, POLLIN);
        record("too little room", log, 4);
        for what in ["second", "fourth", "fifth", "special", "nothing"] {
            record(what, log, 4096);
        }
        record("no more", log, 4096);
        tell("to a place", libc::lseek(log, 1, SEEK_SET));
        tell("from here", libc::lseek(log, 0, SEEK_CUR));
        tell("to its beginning", libc::lseek(log, 0, SEEK_SET));
        ready("at its beginning", log, POLLIN);
        say("debug", b"<15>uncleared\n");
        tell("clear", libc::klogctl(5, ptr::null_mut(), 0));
        say("debug", b"<15>last\n");
        tell("to the cleared", libc::lseek(log, 0, SEEK_DATA));
        record("since", log, 4096);
        libc::close(log);
        let log = open(O_WRONLY);
        let mut byte = 0u8;
        tell(
            "read by who writes",
            libc::read(log, (&raw mut byte).cast(), 1) as i64,
        );
        libc::close(log);
    }
}

/// The whole result of a syslog(2) command.
unsafe fn all(command: c_int, room: usize) -> Result<String, &'static str> {
    let mut bytes = vec![0u8; room];
    match unsafe { libc::klogctl(command, bytes.as_mut_ptr().cast(), room as c_int) } {
        -1 => Err(error()),
        count => Ok(String::from_utf8_lossy(&bytes[..count as usize]).into_owned()),
    }
}

/// The last line of a text, without its time.
fn last(text: &str) -> String {
    let line = text.lines().last().unwrap_or("nothing");
    let (head, rest) = line.split_once('[').unwrap_or((line, ""));
    format!(
        "{head}{}",
        rest.split_once("] ").map_or("", |(_, text)| text)
    )
}

unsafe fn text() {
    unsafe {
        let size = libc::klogctl(10, ptr::null_mut(), 0);
        tell_ok("some room", size >= 4096);
        let whole = all(3, size as usize).unwrap_or_default();
        println!("all: {}", last(&whole));
        tell("clear", libc::klogctl(5, ptr::null_mut(), 0));
        println!("cleared: {:?}", all(3, 4096));
        say("debug", b"<15>one\n");
        say("debug", b"<15>two\nthree\n");
        println!("both: {}", last(&all(3, 4096).unwrap_or_default()));
        println!(
            "the last: {}",
            all(3, 60).unwrap_or_default().lines().count()
        );
        println!(
            "and cleared: {}",
            all(4, 4096).unwrap_or_default().lines().count()
        );
        println!("cleared: {:?}", all(3, 4096));
        let unread = libc::klogctl(9, ptr::null_mut(), 0);
        tell_ok("unread", unread > 0);
        let read = all(2, size as usize).unwrap_or_default();
        println!("read: {}, {}", last(&read), read.len() == unread as usize);
        tell("unread", libc::klogctl(9, ptr::null_mut(), 0));
        say("debug", b"<15>in parts\n");
        let parts: Vec<_> = (0..3).map(|_| all(2, 8).unwrap_or_default()).collect();
        println!(
            "parts: {} {}",
            parts[0].starts_with("<15>["),
            parts.iter().all(|part| part.len() == 8)
        );
        all(2, 4096).unwrap_or_default();
        tell("unread", libc::klogctl(9, ptr::null_mut(), 0));
    }
}

/// The log as an unprivileged user sees it, with both values of dmesg_restrict.
unsafe fn rights() {
    let restrict = |value: &str| fs::write("/proc/sys/kernel/dmesg_restrict", value).is_ok();
    let before = fs::read_to_string("/proc/sys/kernel/dmesg_restrict").unwrap_or_default();
    for value in ["0", "1"] {
        println!("restricted {value}: {}", restrict(value));
        let look = || unsafe {
            libc::setuid(1000);
            for command in [0, 1, 3, 5, 6, 9, 10, 11] {
                let mut bytes = [0u8; 64];
                let result = libc::klogctl(command, bytes.as_mut_ptr().cast(), 64);
                tell_ok(&format!("command {command}"), result >= 0);
            }
            for flags in [O_RDONLY, O_WRONLY] {
                tell_ok("open", open(flags) >= 0);
            }
            println!("changed: {}", restrict("0"));
        };
        tell_end("anybody", in_child(look));
    }
    println!("too much: {}", restrict("2"));
    restrict(before.trim());
}

/// A reader at the end of the log waits.
unsafe fn waiting() {
    unsafe {
        let log = open(O_RDONLY);
        libc::lseek(log, 0, SEEK_END);
        let reader = libc::fork();
        if reader == 0 {
            record("waited for", log, 4096);
            libc::_exit(0);
        }
        libc::usleep(100_000);
        // Only the reader prints meanwhile.
        let text = b"<15>at last\n";
        let log_too = open(O_WRONLY);
        libc::write(log_too, text.as_ptr().cast(), text.len());
        libc::close(log_too);
        libc::waitpid(reader, ptr::null_mut(), 0);
        libc::close(log);
    }
}

/// Console log levels.
unsafe fn levels() {
    let levels = || {
        let levels = fs::read_to_string("/proc/sys/kernel/printk").unwrap_or_default();
        println!(
            "levels {}",
            levels.split_whitespace().collect::<Vec<_>>().join(" ")
        );
    };
    let set = |text: &str| {
        println!(
            "set {text}: {}",
            fs::write("/proc/sys/kernel/printk", text).is_ok()
        )
    };
    set("5 4 1 7");
    levels();
    unsafe {
        tell("off", libc::klogctl(6, ptr::null_mut(), 0));
        levels();
        tell("on", libc::klogctl(7, ptr::null_mut(), 0));
        levels();
        tell("level", libc::klogctl(8, ptr::null_mut(), 3));
    }
    levels();
    set("6");
    levels();
    set("7 4 1 7");
}
