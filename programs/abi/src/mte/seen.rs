//! Tags as debuggers and core files see them.

use std::fs;
use std::io::{Read, Seek, SeekFrom};

use libc::c_void;

use super::*;
use crate::ptrace::{go_on, ptrace, traced, wait};

/// Runs these tests.
pub unsafe fn run() {
    unsafe {
        traced_tags();
        core_file();
    }
}

unsafe fn traced_tags() {
    const PEEK: u32 = 33;
    const POKE: u32 = 34;
    unsafe {
        begin("traced");
        let page = private(TAGGED, 4);
        set_tag(page, 1);
        set_tag(page + GRANULE, 2);
        set_tag(page + PAGE - GRANULE, 3);
        set_tag(page + PAGE, 4);
        let plain = private(PROT_READ | PROT_WRITE, 1);
        let child = traced(|| {
            libc::mprotect((page + 2 * PAGE) as *mut c_void, PAGE, PROT_NONE);
            libc::munmap((page + 3 * PAGE) as *mut c_void, PAGE);
            libc::raise(libc::SIGUSR1);
            println!(
                "{:x} {:x} {:x}",
                tag(page),
                tag(page + GRANULE),
                tag(page + 2 * GRANULE)
            );
            libc::raise(libc::SIGUSR2);
        });
        println!("{}", wait(child));
        go_on(libc::PTRACE_CONT as u32, child, 0);
        println!("{}", wait(child));
        let ask = |what: &str, request, at: usize, buffer: *mut u8, len: usize| {
            let mut piece = [buffer as usize, len];
            tell(what, ptrace(request, child, at, (&raw mut piece) as usize));
            println!("  {}", piece[1]);
        };
        let mut tags = [0xffu8; 600];
        ask("peek", PEEK, page + 5, tags.as_mut_ptr(), 3);
        println!("  {:?}", &tags[..4]);
        ask(
            "two pages",
            PEEK,
            page + PAGE - GRANULE,
            tags.as_mut_ptr(),
            2,
        );
        println!("  {:?}", &tags[..3]);
        ask("with a tag", PEEK, with(page, 9), tags.as_mut_ptr(), 2);
        ask("none", PEEK, page, tags.as_mut_ptr(), 0);
        ask("no rights", PEEK, page + 2 * PAGE, tags.as_mut_ptr(), 256);
        ask("to the hole", PEEK, page + 2 * PAGE, tags.as_mut_ptr(), 300);
        ask("the hole", PEEK, page + 3 * PAGE, tags.as_mut_ptr(), 3);
        ask("no tags", PEEK, plain, tags.as_mut_ptr(), 3);
        ask("nowhere", PEEK, page, 8 as *mut u8, 3);
        ask("beyond", PEEK, page, usize::MAX as *mut u8, 3);
        let edge = private(PROT_READ | PROT_WRITE, 2);
        libc::munmap((edge + PAGE) as *mut c_void, PAGE);
        store(edge + PAGE - 2, 6);
        store(edge + PAGE - 1, 0x17);
        ask("a part", POKE, page, (edge + PAGE - 2) as *mut u8, 8);
        ask("peek", PEEK, page, tags.as_mut_ptr(), 3);
        println!("  {:?}", &tags[..3]);
        ask("a part", PEEK, page, (edge + PAGE - 2) as *mut u8, 8);
        ask(
            "poke no rights",
            POKE,
            page + 2 * PAGE,
            tags.as_mut_ptr(),
            2,
        );
        ask("peek", PEEK, page + 2 * PAGE, tags.as_mut_ptr(), 3);
        println!("  {:?}", &tags[..3]);
        println!("own {:x} {:x}", tag(page), tag(page + GRANULE));
        tell("no vector", ptrace(PEEK, child, page, 8));
        go_on(libc::PTRACE_CONT as u32, child, 0);
        println!("{}", wait(child));
        let mut mode = [9u64; 2];
        let set = |what: &str, request: u32, mode: &mut [u64]| {
            let mut piece = [mode.as_mut_ptr() as usize, 8];
            tell(
                what,
                ptrace(request, child, 0x409, (&raw mut piece) as usize),
            );
            println!("  {:#x}", mode[0]);
        };
        set("mode", 0x4204, &mut mode);
        for value in [SYNC | ENABLE | 0x30 << 3, ASYNC, SYNC | ASYNC, 1 << 19] {
            set("set mode", 0x4205, &mut [value as u64]);
            set("mode", 0x4204, &mut mode);
        }
        tell("not traced", ptrace(PEEK, 1, page, 0));
        libc::kill(child, libc::SIGKILL);
        println!("{}", wait(child));
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let part = bytes[at..at + len].iter().rev();
    part.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

unsafe fn core_file() {
    unsafe {
        begin("core file");
        // Reserves addresses, so that the area does not merge with other tagged ones.
        let room = private(libc::PROT_NONE, 8);
        let (page, left_out) = (room + PAGE, room + 6 * PAGE);
        for (at, pages) in [(page, 3), (left_out, 1)] {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(at as *mut c_void, pages * PAGE, TAGGED, flags, -1, 0);
        }
        let status = in_child(|| {
            let most = libc::rlimit {
                rlim_cur: libc::RLIM_INFINITY,
                rlim_max: libc::RLIM_INFINITY,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &most);
            libc::madvise(left_out as *mut c_void, PAGE, libc::MADV_DONTDUMP);
            set_tag(page, 1);
            set_tag(page + GRANULE, 2);
            set_tag(page + 2 * PAGE + 32, 3);
            set_tag(left_out, 3);
            check(ENABLE | SYNC | ALL_TAGS);
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            load(with(page, 9));
        });
        println!(
            "signal {} core {}",
            libc::WTERMSIG(status),
            libc::WCOREDUMP(status)
        );
        let mut file = fs::File::open("core").expect("a core file");
        let mut head = [0; 64];
        file.read_exact(&mut head).expect("a header");
        let mut segments = vec![0; 56 * number(&head, 56, 2) as usize];
        file.read_exact(&mut segments).expect("program headers");
        let mut notes = (0, 0);
        for segment in segments.chunks(56) {
            let kind = number(segment, 0, 4);
            let (offset, start) = (number(segment, 8, 8), number(segment, 16, 8) as usize);
            let (len, memory) = (number(segment, 32, 8), number(segment, 40, 8));
            if kind == 4 {
                notes = (offset, len);
            }
            if kind != 0x7000_0002 || start != page && start != left_out {
                continue;
            }
            let rest = (
                number(segment, 4, 4),
                number(segment, 24, 8),
                number(segment, 48, 8),
            );
            println!("{} len {len} memory {memory} {rest:?}", start == page);
            let mut tags = vec![0; len as usize];
            file.seek(SeekFrom::Start(offset)).expect("it is there");
            file.read_exact(&mut tags).expect("tags");
            let some = tags.iter().enumerate().filter(|(_, byte)| **byte != 0);
            println!("{:x?}", some.collect::<Vec<_>>());
        }
        let mut bytes = vec![0; notes.1 as usize];
        file.seek(SeekFrom::Start(notes.0)).expect("it is there");
        file.read_exact(&mut bytes).expect("notes");
        let (mut at, mut fault) = (0, (0, 0));
        while at + 12 <= bytes.len() {
            let name = number(&bytes, at, 4) as usize;
            let len = number(&bytes, at + 4, 4) as usize;
            let content = at + 12 + name.next_multiple_of(4);
            if number(&bytes, at + 8, 4) == 0x409 {
                println!("note of {len}: {:#x}", number(&bytes, content, len));
            }
            if number(&bytes, at + 8, 4) == 0x5349_4749 {
                let address = number(&bytes, content + 16, 8) as usize;
                fault = (number(&bytes, content + 8, 4), address >> 56);
            }
            at = content + len.next_multiple_of(4);
        }
        println!("code {} tag {:x}", fault.0, fault.1);
        let _ = fs::remove_file("core");
    }
}
