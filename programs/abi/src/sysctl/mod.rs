//! Numbers in /proc/sys: the writes that they accept, and how they are read.

use std::ffi::CString;

use libc::c_int;

mod effects;

use crate::{error, in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: all pointers are to live values, and children end by _exit.
    unsafe {
        ranges();
        forms();
        parts();
        several();
        effects::run();
        users();
        names();
    }
}

/// A name is written at an offset, and cut off at its maximum length.
unsafe fn names() {
    let path = "kernel/hostname";
    let before = content(path);
    let long = "x".repeat(100);
    for (text, place) in [
        ("first", 0),
        ("second\nthird", 2),
        (" a b ", 0),
        ("none", 100),
        ("end", 4),
        ("\0zero", 2),
        ("", 0),
        (&long, 0),
        (&long, 60),
        ("\n", 3),
        ("\n", 0),
    ] {
        write_at(path, text, place);
    }
    write(path, &before);
    let mut room = unsafe { std::mem::zeroed::<libc::utsname>() };
    unsafe { libc::uname(&mut room) };
    println!("as before {}", content(path) == before);
    let path = "kernel/core_pattern";
    let before = content(path);
    for (text, place) in [
        ("in", 0),
        (" pieces", 2),
        ("none", 100),
        ("%p\nrest", 5),
        ("", 0),
        (&long, 0),
        (&long, 100),
        ("\n", 4),
    ] {
        write_at(path, text, place);
    }
    in_pieces(path, &["core", ".%e", ".%p\n", "no more"]);
    write(path, &before);
}

/// Writes once at an offset.
fn write_at(path: &str, text: &str, place: i64) {
    let file = open(path, libc::O_WRONLY);
    // SAFETY: the text is live.
    let done = unsafe { libc::pwrite(file, text.as_ptr().cast(), text.len(), place) };
    tell("written", done as i64);
    // SAFETY: the descriptor is open.
    unsafe { libc::close(file) };
    let shown = content(path);
    println!("{} {shown:?}", shown.len());
}

/// Writes pieces one after the other.
fn in_pieces(path: &str, pieces: &[&str]) {
    let file = open(path, libc::O_WRONLY);
    for piece in pieces {
        // SAFETY: the text is live.
        let done = unsafe { libc::write(file, piece.as_ptr().cast(), piece.len()) };
        tell(piece.trim(), done as i64);
    }
    // SAFETY: the descriptor is open.
    unsafe { libc::close(file) };
    println!("{:?}", content(path));
}

fn open(path: &str, flags: c_int) -> c_int {
    let path = CString::new(format!("/proc/sys/{path}")).expect("no zero");
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::open(path.as_ptr(), flags) }
}

/// The content; further reads at the end are tested too.
fn content(path: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/{path}")).map_or_else(
        |error| format!("{:?}", error.kind()),
        |text| text.trim_end().to_owned(),
    )
}

/// Writes once, and returns the result as text.
fn write(path: &str, text: &str) -> String {
    let file = open(path, libc::O_WRONLY);
    if file < 0 {
        return format!("open {}", error());
    }
    // SAFETY: the text is live.
    unsafe {
        let done = libc::write(file, text.as_ptr().cast(), text.len());
        let said = if done < 0 {
            error().to_owned()
        } else {
            done.to_string()
        };
        libc::close(file);
        said
    }
}

/// The limits of each file.
unsafe fn ranges() {
    let int = ["-1", "0", "2147483647", "2147483648"];
    let long = ["-1", "0", "9223372036854775807", "18446744073709551615"];
    let cases: &[(&str, &[&str])] = &[
        (
            "fs/epoll/max_user_watches",
            &["-1", "9223372036854775807", "9223372036854775808"],
        ),
        (
            "fs/file-max",
            &["-1", "9223372036854775807", "9223372036854775808"],
        ),
        ("fs/inotify/max_queued_events", &int),
        (
            "fs/inotify/max_user_instances",
            &["-1", "2147483647", "2147483648"],
        ),
        (
            "fs/inotify/max_user_watches",
            &["-1", "2147483647", "2147483648"],
        ),
        (
            "fs/pipe-max-size",
            &["-1", "0", "4097", "2147483648", "2147483649"],
        ),
        ("fs/mqueue/msg_default", &["0", "1", "65536", "65537"]),
        ("fs/mqueue/msg_max", &["0", "1", "65536", "65537"]),
        (
            "fs/mqueue/msgsize_default",
            &["127", "128", "16777216", "16777217"],
        ),
        (
            "fs/mqueue/msgsize_max",
            &["127", "128", "16777216", "16777217"],
        ),
        ("fs/nr_open", &["63", "64", "2147483584", "2147483585"]),
        ("fs/suid_dumpable", &["-1", "1", "2", "3", "0"]),
        ("kernel/core_uses_pid", &["-1", "1", "0", "2147483648"]),
        ("fs/pipe-user-pages-soft", &long),
        ("fs/protected_fifos", &["0", "-1", "2", "3"]),
        ("fs/protected_hardlinks", &["-1", "0", "1", "2"]),
        ("fs/protected_regular", &["0", "2", "3"]),
        ("fs/protected_symlinks", &["0", "1", "2"]),
        ("kernel/dmesg_restrict", &["-1", "0", "1", "2"]),
        ("kernel/msgmax", &int),
        ("kernel/msgmnb", &int),
        ("kernel/msgmni", &["-1", "0", "32768", "32769"]),
        ("kernel/pid_max", &["300", "301", "4194304", "4194305"]),
        (
            "kernel/sched_rr_timeslice_ms",
            &["-1", "7", "0", "2147483647", "2147483648"],
        ),
        (
            "kernel/sem_next_id",
            &["-1", "0", "2147483647", "2147483648"],
        ),
        ("kernel/shmall", &long),
        ("kernel/shmmax", &long),
        ("kernel/shmmni", &["-1", "0", "32768", "32769"]),
        ("kernel/threads-max", &["0", "1073741824"]),
        ("net/core/somaxconn", &int),
        (
            "net/ipv4/ip_unprivileged_port_start",
            &["-1", "0", "32768", "32769", "65536"],
        ),
        ("net/unix/max_dgram_qlen", &int),
        ("vm/admin_reserve_kbytes", &["-1", "0", "5"]),
        ("vm/drop_caches", &["0", "1", "4", "5"]),
        // Not 0: other tests on the machine could not map memory meanwhile.
        ("vm/max_map_count", &["-1", "2147483647", "2147483648"]),
        ("vm/min_free_kbytes", &["-1", "8195", "x"]),
        ("vm/overcommit_memory", &["-1", "0", "1", "3"]),
        ("vm/overcommit_ratio", &["0", "100", "2147483648"]),
        ("vm/overcommit_kbytes", &["-1", "5", "0"]),
    ];
    for (path, values) in cases {
        let mode = std::fs::metadata(format!("/proc/sys/{path}")).map_or(0, |data| {
            use std::os::unix::fs::MetadataExt;
            data.mode()
        });
        println!("{path}: {mode:o}");
        let before = content(path);
        for value in *values {
            let said = write(path, value);
            println!("  {value}: {said}, {}", content_but_machine(path));
        }
        write(path, &before);
        if content(path) != before {
            println!("  not as before");
        }
    }
    let before = content("vm/min_free_kbytes");
    write("vm/min_free_kbytes", "16384");
    println!("kept free: {}", (4090..=4160).contains(&least_free()));
    write("vm/min_free_kbytes", &before);
    // A write of the former value does not restore it.
    write("vm/overcommit_ratio", "50");
}

/// The sum of all zones' minimum of free pages.
fn least_free() -> u64 {
    let text = std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("min "));
    lines
        .filter_map(|pages| pages.trim().parse::<u64>().ok())
        .sum()
}

/// The content, unless it depends on the machine.
fn content_but_machine(path: &str) -> String {
    match path {
        "kernel/threads-max"
        | "fs/file-max"
        | "fs/epoll/max_user_watches"
        | "fs/inotify/max_user_watches"
        | "fs/inotify/max_user_instances"
        | "kernel/shmmax"
        | "vm/overcommit_ratio"
        | "vm/min_free_kbytes"
        | "vm/overcommit_kbytes" => {
            let known = [
                "0",
                "5",
                "100",
                "8195",
                "2147483647",
                "9223372036854775807",
                "18446744073709551615",
            ];
            let content = content(path);
            match known.contains(&content.as_str()) {
                true => content,
                false => "as before".to_owned(),
            }
        }
        "kernel/pid_max"
        | "kernel/shmall"
        | "vm/admin_reserve_kbytes"
        | "kernel/msgmni"
        | "vm/max_map_count" => {
            let content = content(path);
            match content.as_str() {
                "0"
                | "5"
                | "301"
                | "4194304"
                | "32768"
                | "2147483647"
                | "9223372036854775807"
                | "18446744073709551615" => content,
                _ => "as before".to_owned(),
            }
        }
        _ => content(path),
    }
}

/// The accepted notations of a number.
unsafe fn forms() {
    let path = "fs/inotify/max_queued_events";
    let before = content(path);
    for text in [
        "",
        " ",
        "\n",
        "7",
        "7\n",
        " \t 8 \n",
        "0x10",
        "0X1f\n",
        "010",
        "08",
        "+9",
        "9x",
        "9 x",
        "9 10",
        "9-",
        "- 9",
        "--9",
        "x",
        "0x",
        "9\u{b}",
        "\u{b}9",
        "9\r\n",
        "1,2",
        "1e3",
        "1.5",
        "99999999999999999999",
        "000000000000000000001",
        "0000000000000000000000001",
    ] {
        write(path, "3");
        let said = write(path, text);
        println!("{text:?}: {said}, {}", content(path));
    }
    for text in [[b'5', 0].as_slice(), b"5\0x", b"\x005"] {
        write(path, "3");
        let said = write(path, std::str::from_utf8(text).expect("UTF-8"));
        println!("{text:?}: {said}, {}", content(path));
    }
    write(path, &before);
    let path = "fs/pipe-user-pages-hard";
    for text in ["", " ", "5 6", "5 x", "-5", "x", "0x20"] {
        write(path, "3");
        let said = write(path, text);
        println!("long {text:?}: {said}, {}", content(path));
    }
    write(path, "0");
    let path = "fs/pipe-max-size";
    let before = content(path);
    for text in ["", " ", "4096 6", "8192 x", "-5", "x", "0x4000"] {
        let said = write(path, text);
        println!("unsigned {text:?}: {said}, {}", content(path));
    }
    write(path, &before);
}

/// Writes and reads at other offsets than 0, or shorter than the number.
unsafe fn parts() {
    unsafe {
        let path = "vm/max_map_count";
        write(path, "65530");
        let file = open(path, libc::O_RDWR);
        let mut bytes = [0u8; 16];
        let mut read = |what: &str, size: usize, at: i64| {
            let got = libc::pread(file, bytes.as_mut_ptr().cast(), size, at);
            let text = String::from_utf8_lossy(&bytes[..got.max(0) as usize]).into_owned();
            println!("{what}: {got} {text:?}");
        };
        read("all", 16, 0);
        read("short", 2, 0);
        read("from the second", 16, 1);
        read("beyond", 16, 100);
        let write_at = |text: &str, at: i64| {
            let done = libc::pwrite(file, text.as_ptr().cast(), text.len(), at);
            tell(&format!("{text} at {at}"), done as i64);
            println!("  {}", content(path));
        };
        write_at("70000", 0);
        write_at("80000", 1);
        write_at("bad", 2);
        let next = |text: &str| {
            tell(
                text,
                libc::write(file, text.as_ptr().cast(), text.len()) as i64,
            );
            println!("  {}", content(path));
        };
        next("71000");
        next("72000");
        tell("back", libc::lseek(file, 0, libc::SEEK_SET));
        next("73000");
        tell(
            "nothing",
            libc::write(file, bytes.as_ptr().cast(), 0) as i64,
        );
        tell("cut", libc::ftruncate(file, 0));
        println!("  {}", content(path));
        libc::close(file);
        write(path, "65530");
    }
}

/// A file with several numbers.
unsafe fn several() {
    let path = "kernel/printk";
    let before = content(path);
    for text in [
        "3",
        "4 3",
        "4\t3\t2\n",
        "4 3 2 1 9",
        "1 x",
        "x 1",
        "7 4 1 7\n",
    ] {
        let said = write(path, text);
        println!("{text:?}: {said}, {:?}", content(path));
    }
    write(path, &before);
    let path = "kernel/sem";
    let before = content(path);
    for text in ["5", "6 -7", "1 2 3 32768", "4 5 6 32769", "7 8 9 -1"] {
        let said = write(path, text);
        println!("{text:?}: {said}, {:?}", content(path));
    }
    write(path, &before);
    let path = "net/ipv4/ip_local_port_range";
    let before = content(path);
    for text in [
        "1024 1023",
        "1023 60000",
        "1024 65535",
        "1025 65536",
        "0 5",
        "40000",
        "65000 2000",
        "x",
        "50000 50001 x",
    ] {
        let said = write(path, text);
        println!("{text:?}: {said}, {:?}", content(path));
    }
    places(path, "40000 50000");
    write(path, &before);
    let path = "net/ipv4/ping_group_range";
    let before = content(path);
    for text in [
        "1 2",
        "5",
        "6 5",
        "7 4294967294",
        "8 4294967295",
        "-1 9",
        "9 -1",
        "x",
        "10 11 x",
        "12 13x",
        "0x10\t010\n",
        "  ",
    ] {
        let said = write(path, text);
        println!("{text:?}: {said}, {:?}", content(path));
    }
    places(path, "3 4");
    write(path, &before);
}

/// Writes of several numbers at other offsets and in pieces, and reads in pieces.
fn places(path: &str, text: &str) {
    for place in [0, 1, 100] {
        write_at(path, text, place);
    }
    write_at(path, "", 0);
    write_at(path, "x", 1);
    in_pieces(path, &["42000 ", "43000", "x"]);
    let file = open(path, libc::O_RDONLY);
    let mut bytes = [0u8; 64];
    for len in [2, 64, 64] {
        // SAFETY: the buffer has room for `len` bytes.
        let got = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), len) };
        let text = String::from_utf8_lossy(&bytes[..got.max(0) as usize]);
        println!("read {len}: {got} {text:?}");
    }
    // SAFETY: the descriptor is open.
    unsafe { libc::close(file) };
}

/// Writes by other users, and read-only files.
unsafe fn users() {
    tell_end(
        "another user",
        in_child(|| {
            // SAFETY: the call takes only numbers.
            unsafe { libc::setuid(1000) };
            for path in ["vm/max_map_count", "fs/protected_fifos", "vm/drop_caches"] {
                println!("{path}: {}, {}", write(path, "1"), content(path).len() > 5);
            }
        }),
    );
    for path in [
        "kernel/osrelease",
        "kernel/ngroups_max",
        "fs/file-nr",
        "fs/aio-nr",
    ] {
        println!("{path}: {}", write(path, "1"));
    }
    for path in ["vm/min_free_kbytes", "kernel/sched_rr_timeslice_ms"] {
        println!(
            "{path}: {}",
            content(path).parse::<u32>().is_ok_and(|it| it > 0)
        );
    }
}
