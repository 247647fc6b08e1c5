//! A disk, /dev/vda, of 64 MiB for this test: edge cases of calls, mappings and requests.

use std::ptr::{null_mut, read_volatile, write_volatile};

use libc::{
    MAP_FAILED, MAP_PRIVATE, MAP_SHARED, MS_ASYNC, MS_SYNC, O_DIRECT, O_EXCL, O_RDONLY, O_RDWR,
    O_SYNC, PROT_READ, PROT_WRITE, SEEK_CUR, SEEK_END, SEEK_SET, c_int, c_void,
};

use crate::{path, tell, tell_ok};

const DISK: &std::ffi::CStr = c"/dev/vda";
const SIZE: i64 = 64 << 20;
const PAGE: usize = 4096;

/// Requests of ioctl(2), with their arguments' type and size in bytes.
const REQUESTS: [(&str, u32, usize); 8] = [
    ("BLKGETSIZE64", 0x8008_1272, 8),
    ("BLKGETSIZE", 0x1260, 8),
    ("BLKSSZGET", 0x1268, 4),
    ("BLKPBSZGET", 0x127b, 4),
    ("BLKBSZGET", 0x8008_1270, 4),
    ("BLKROGET", 0x125e, 4),
    ("BLKIOMIN", 0x1278, 4),
    ("BLKALIGNOFF", 0x127a, 4),
];
const BLKFLSBUF: u32 = 0x1261;
const BLKRRPART: u32 = 0x125f;
const BLKROSET: u32 = 0x125d;
const BLKROGET: u32 = 0x125e;
const BLKDISCARD: u32 = 0x1277;
const BLKZEROOUT: u32 = 0x127f;

fn open(flags: c_int) -> c_int {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::open(path(DISK), flags) }
}

unsafe fn write_at(file: c_int, from: *const u8, len: usize, at: i64) -> i64 {
    unsafe { libc::pwrite(file, from.cast(), len, at) as i64 }
}

unsafe fn read_at(file: c_int, to: *mut u8, len: usize, at: i64) -> i64 {
    unsafe { libc::pread(file, to.cast(), len, at) as i64 }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to live memory of the right length.
    unsafe {
        let file = open(O_RDWR);
        tell_ok("open", file >= 0);
        requests(file);
        positions(file);
        ends(file);
        mapped(file);
        beside(file);
        direct(file);
        extents(file);
        synced(file);
        alone();
        read_only(file);
        second_user(file);
    }
}

unsafe fn requests(file: c_int) {
    unsafe {
        let mut room = [0u8; 64];
        for (name, request, len) in REQUESTS {
            let mut answer = 0u64;
            let done = libc::ioctl(file, request as _, &raw mut answer);
            println!(
                "{name}: {done} {}",
                if len == 4 {
                    answer & 0xffff_ffff
                } else {
                    answer
                }
            );
        }
        tell("BLKFLSBUF", libc::ioctl(file, BLKFLSBUF as _, 0));
        tell("BLKRRPART", libc::ioctl(file, BLKRRPART as _, 0));
        tell(
            "a terminal's request",
            libc::ioctl(file, libc::TCGETS as _, room.as_mut_ptr()),
        );
        let mut stat: libc::stat = std::mem::zeroed();
        tell("fstat", libc::fstat(file, &mut stat));
        println!(
            "kind {:o}, size {}",
            stat.st_mode & libc::S_IFMT,
            stat.st_size
        );
    }
}

unsafe fn positions(file: c_int) {
    unsafe {
        for (name, offset, whence) in [
            ("end", 0, SEEK_END),
            ("beyond the end", 1, SEEK_END),
            ("the last byte", -1, SEEK_END),
            ("before the start", -1, SEEK_SET),
            ("present", 0, SEEK_CUR),
            ("the start", 0, SEEK_SET),
        ] {
            tell(name, libc::lseek(file, offset, whence));
        }
        tell("truncate", libc::ftruncate(file, 4096));
        tell(
            "poll of a disk",
            libc::poll(
                &mut libc::pollfd {
                    fd: file,
                    events: 1,
                    revents: 0,
                },
                1,
                0,
            ),
        );
    }
}

unsafe fn ends(file: c_int) {
    unsafe {
        let bytes = [7u8; 2 * PAGE];
        let mut room = [1u8; 2 * PAGE];
        tell(
            "write over the end",
            write_at(file, bytes.as_ptr(), 2 * PAGE, SIZE - 100),
        );
        tell("write at the end", write_at(file, bytes.as_ptr(), 1, SIZE));
        tell(
            "write beyond it",
            write_at(file, bytes.as_ptr(), 1, SIZE + 5000),
        );
        tell(
            "nothing beyond it",
            write_at(file, bytes.as_ptr(), 0, SIZE + 5000),
        );
        tell(
            "read over the end",
            read_at(file, room.as_mut_ptr(), 2 * PAGE, SIZE - 101),
        );
        println!("{} {} {} {}", room[0], room[1], room[100], room[101]);
        tell("read at the end", read_at(file, room.as_mut_ptr(), 1, SIZE));
        tell(
            "write inside a page",
            write_at(file, bytes.as_ptr(), 5, 10_000),
        );
        tell("read of it", read_at(file, room.as_mut_ptr(), 8, 9_999));
        println!("{:?}", &room[..8]);
        // The second half of the memory is not mapped.
        let (rights, kind) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(null_mut(), 2 * PAGE, rights, kind, -1, 0).cast::<u8>();
        libc::munmap(at.add(PAGE).cast(), PAGE);
        at.add(PAGE - 1000).write_bytes(9, 1000);
        tell(
            "write of half a page",
            write_at(file, at.add(PAGE - 1000), PAGE, 40_960),
        );
        tell(
            "read of the page",
            read_at(file, room.as_mut_ptr(), PAGE, 40_960),
        );
        println!("{} {}", room[999], room[1000]);
        tell("read to nowhere", read_at(file, at.add(PAGE), 1, 0));
    }
}

unsafe fn map(file: c_int, kind: c_int, len: usize, offset: i64) -> *mut u8 {
    let at = unsafe { libc::mmap(null_mut(), len, PROT_READ | PROT_WRITE, kind, file, offset) };
    tell_ok("mmap", at != MAP_FAILED);
    at.cast()
}

unsafe fn mapped(file: c_int) {
    unsafe {
        let mut room = [0u8; 16];
        let shared = map(file, MAP_SHARED, 64 * PAGE, 1 << 20);
        let private = map(file, MAP_PRIVATE, 64 * PAGE, 1 << 20);
        // A page that is read first and then written, and one that is written at once.
        let seen = read_volatile(shared.add(5));
        write_volatile(shared.add(5), 65);
        write_volatile(shared.add(3 * PAGE), 66);
        println!(
            "{seen} {} {}",
            read_volatile(private.add(5)),
            read_volatile(private.add(3 * PAGE))
        );
        write_volatile(private.add(5), 90);
        tell(
            "read of a mapped byte",
            read_at(file, room.as_mut_ptr(), 1, (1 << 20) + 5),
        );
        println!("{} {}", room[0], read_volatile(shared.add(5)));
        tell(
            "write to a mapped page",
            write_at(file, [67].as_ptr(), 1, (1 << 20) + 6),
        );
        println!(
            "{} {}",
            read_volatile(shared.add(6)),
            read_volatile(private.add(6))
        );
        tell("msync", libc::msync(shared.cast(), 64 * PAGE, MS_SYNC));
        tell("msync later", libc::msync(shared.cast(), PAGE, MS_ASYNC));
        // After write-back, the page is written again.
        write_volatile(shared.add(5), 68);
        tell("msync again", libc::msync(shared.cast(), PAGE, MS_SYNC));
        let reader = open(O_RDONLY | O_DIRECT);
        let aligned = map(-1, MAP_PRIVATE | libc::MAP_ANONYMOUS, 4 * PAGE, 0);
        tell(
            "read past the cache",
            read_at(reader, aligned, 4 * PAGE, 1 << 20),
        );
        println!(
            "{} {} {}",
            *aligned.add(5),
            *aligned.add(6),
            *aligned.add(3 * PAGE)
        );
        let rights = |rights| libc::mprotect(shared.cast(), PAGE, rights);
        tell("mprotect", rights(PROT_READ));
        tell("mprotect back", rights(PROT_READ | PROT_WRITE));
        write_volatile(shared.add(7), 69);
        println!("{}", read_volatile(private.add(7)));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for line in maps.lines().filter(|line| line.ends_with("/dev/vda")) {
            println!("{}", line.split_whitespace().nth(1).unwrap_or_default());
        }
        let at = libc::mmap(null_mut(), PAGE, PROT_WRITE, MAP_SHARED, reader, 0);
        tell(
            "mmap for writing of what is read",
            if at == MAP_FAILED { -1 } else { 0 },
        );
        // A child writes a page that its parent has mapped.
        if libc::fork() == 0 {
            write_volatile(shared.add(10 * PAGE), 70);
            libc::_exit(0);
        }
        libc::wait(null_mut());
        println!("{}", read_volatile(shared.add(10 * PAGE)));
        tell(
            "populate",
            libc::madvise(shared.add(20 * PAGE).cast(), PAGE, 23),
        );
        libc::munmap(shared.cast(), 64 * PAGE);
        libc::close(reader);
    }
}

/// Mapped pages of the disk as buffers of calls: to read into, and to write from.
unsafe fn beside(file: c_int) {
    unsafe {
        let shared = map(file, MAP_SHARED, 4 * PAGE, 2 << 20);
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        tell(
            "write from it",
            libc::write(pipe[1], shared.cast(), 100) as i64,
        );
        libc::write(pipe[1], b"piped".as_ptr().cast::<c_void>(), 5);
        tell(
            "read into it",
            libc::read(pipe[0], shared.add(PAGE).cast(), 105) as i64,
        );
        let mut room = [0u8; 5];
        read_at(file, room.as_mut_ptr(), 5, (2 << 20) + PAGE as i64 + 100);
        println!("{:?}", String::from_utf8_lossy(&room));
        let at = shared.add(PAGE + 100);
        tell(
            "write of a disk to itself",
            write_at(file, at, 5, (2 << 20) + 2 * PAGE as i64 + 1),
        );
        println!("{}", *shared.add(2 * PAGE + 1));
        libc::munmap(shared.cast(), 4 * PAGE);
    }
}

unsafe fn direct(file: c_int) {
    unsafe {
        let direct = open(O_RDWR | O_DIRECT);
        tell_ok("open direct", direct >= 0);
        let memory = map(-1, MAP_PRIVATE | libc::MAP_ANONYMOUS, 64 * PAGE, 0);
        memory.write_bytes(33, 64 * PAGE);
        tell("odd length", write_at(direct, memory, 100, 0));
        tell("odd position", write_at(direct, memory, 512, 100));
        tell("odd memory", write_at(direct, memory.add(1), 512, 0));
        let cached = [1u8; 3];
        write_at(file, cached.as_ptr(), 3, 3 << 20);
        tell("sectors", write_at(direct, memory, 1024, (3 << 20) + 512));
        tell("pages", write_at(direct, memory, 64 * PAGE, 4 << 20));
        let mut room = [0u8; 520];
        tell(
            "what the cache has of it",
            read_at(file, room.as_mut_ptr(), 520, 3 << 20),
        );
        println!("{} {} {} {}", room[2], room[3], room[511], room[512]);
        write_at(file, [44].as_ptr(), 1, (4 << 20) + 77);
        tell(
            "read of what is in the cache",
            read_at(direct, memory, 512, 4 << 20),
        );
        println!("{} {}", *memory.add(77), *memory.add(78));
        tell("over the end", write_at(direct, memory, PAGE, SIZE - 512));
        tell("at the end", write_at(direct, memory, 512, SIZE));
        tell("read at the end", read_at(direct, memory, 512, SIZE));
        libc::close(direct);
    }
}

unsafe fn extent(file: c_int, request: u32, start: i64, len: i64) -> c_int {
    unsafe { libc::ioctl(file, request as _, [start, len].as_ptr()) }
}

/// Sectors that are zeroed or discarded.
unsafe fn extents(file: c_int) {
    const AT: i64 = 8 << 20;
    const LEN: i64 = PAGE as i64;
    unsafe {
        let reader = open(O_RDONLY);
        let bytes = [6u8; 4 * PAGE];
        write_at(file, bytes.as_ptr(), bytes.len(), AT);
        let shared = map(file, MAP_SHARED, 4 * PAGE, AT);
        write_volatile(shared.add(3 * PAGE), 7);
        for (name, request) in [("BLKZEROOUT", BLKZEROOUT), ("BLKDISCARD", BLKDISCARD)] {
            println!("{name}");
            for (name, file, start, len) in [
                ("part of a sector", file, AT, 100),
                ("inside a sector", file, AT + 8, 512),
                ("nothing", file, AT, 0),
                ("over the end", file, SIZE - 512, 1024),
                ("behind the end", file, SIZE, 512),
                ("far behind it", file, i64::MAX - 511, 512),
                ("around the end of numbers", file, -512, 1024),
                ("of a reader", reader, AT, 512),
            ] {
                tell(name, extent(file, request, start, len));
            }
            tell("from nowhere", libc::ioctl(file, request as _, 0));
        }
        tell("zeroes", extent(file, BLKZEROOUT, AT + 512, 1024));
        tell("forget", extent(file, BLKDISCARD, 16 << 20, 1 << 20));
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let (zero, punch) = (libc::FALLOC_FL_ZERO_RANGE, libc::FALLOC_FL_PUNCH_HOLE);
        for (name, mode, start, len) in [
            ("allocate", 0, AT, LEN),
            ("allocate and keep", keep, AT, LEN),
            ("zero", zero, AT + 2048, 512),
            ("zero and keep", zero | keep, AT + LEN, LEN),
            ("punch", punch | keep, AT + 2 * LEN, 512),
            ("punch and grow", punch, AT, LEN),
            ("collapse", libc::FALLOC_FL_COLLAPSE_RANGE, AT, LEN),
            ("part of a sector", zero, AT, 100),
            ("over the end", zero, SIZE - 512, 1024),
            ("over the end and keep", zero | keep, SIZE - 512, 1024),
            ("over the end, punched", punch | keep, SIZE - 512, 1024),
            ("at the end", zero | keep, SIZE, 512),
        ] {
            tell(name, libc::fallocate(file, mode, start, len));
        }
        tell("of a reader", libc::fallocate(reader, zero, AT, LEN));
        let mut room = [0u8; 4 * PAGE];
        read_at(reader, room.as_mut_ptr(), room.len(), AT);
        for (sector, bytes) in room.chunks(512).enumerate() {
            let same = bytes[1..].iter().all(|byte| *byte == bytes[1]);
            let mapped = read_volatile(shared.add(512 * sector));
            print!("{}{}{mapped} ", bytes[0], if same { "=" } else { "?" });
        }
        println!();
        libc::munmap(shared.cast(), 4 * PAGE);
        libc::close(reader);
    }
}

unsafe fn synced(file: c_int) {
    unsafe {
        let bytes = [5u8; PAGE];
        tell("write", write_at(file, bytes.as_ptr(), PAGE, 5 << 20));
        tell(
            "sync_file_range",
            libc::sync_file_range(file, 5 << 20, 4096, 7),
        );
        tell("fdatasync", libc::fdatasync(file));
        tell("fsync", libc::fsync(file));
        tell("syncfs", libc::syncfs(file));
        let other = open(O_RDWR | O_SYNC);
        tell(
            "write of O_SYNC",
            write_at(other, bytes.as_ptr(), PAGE, 6 << 20),
        );
        tell("readahead", libc::readahead(file, 0, 1 << 20) as i64);
        for advice in 0..6 {
            tell("advice", libc::posix_fadvise(file, 0, 1 << 20, advice));
        }
        libc::close(other);
    }
}

unsafe fn alone() {
    unsafe {
        let one = open(O_RDWR | O_EXCL);
        tell_ok("alone", one >= 0);
        tell("another alone", open(O_RDWR | O_EXCL));
        tell_ok("another", open(O_RDWR) >= 0);
        libc::close(one);
        tell_ok("alone again", open(O_RDWR | O_EXCL) >= 0);
    }
}

unsafe fn set_read_only(file: c_int, on: c_int) -> c_int {
    unsafe { libc::ioctl(file, BLKROSET as _, &raw const on) }
}

/// Tries to map a page of the disk and to use it, and prints the results.
unsafe fn try_map(name: &str, file: c_int, rights: c_int, kind: c_int) {
    unsafe {
        let at = libc::mmap(null_mut(), PAGE, rights, kind, file, 0);
        tell(name, if at == MAP_FAILED { -1 } else { 0 });
        if at == MAP_FAILED {
            return;
        }
        let memory = libc::open(c"/proc/self/mem".as_ptr(), O_RDWR);
        let byte = write_at(memory, [1].as_ptr(), 1, at as i64);
        tell("a debugger's write", byte);
        let rights = PROT_READ | PROT_WRITE;
        tell("mprotect", libc::mprotect(at, PAGE, rights));
        libc::close(memory);
        libc::munmap(at, PAGE);
    }
}

/// Writes to a read-only disk, and read-only mappings.
unsafe fn read_only(file: c_int) {
    unsafe {
        let reader = open(O_RDONLY);
        try_map("shared, of a writer", file, PROT_READ, MAP_SHARED);
        try_map("shared, of a reader", reader, PROT_READ, MAP_SHARED);
        try_map("private, of a reader", reader, PROT_READ, MAP_PRIVATE);
        tell("BLKROSET", set_read_only(file, 1));
        let mut answer = 0;
        libc::ioctl(file, BLKROGET as _, &raw mut answer);
        println!("{answer}");
        let before = write_at(file, [1].as_ptr(), 1, 0);
        tell("write of an earlier writer", before);
        tell("write of nothing", write_at(file, [1].as_ptr(), 0, 0));
        let writer = open(O_RDWR);
        tell_ok("a writer", writer >= 0);
        tell("its write", write_at(writer, [1].as_ptr(), 1, 0));
        tell("its zeroes", extent(writer, BLKZEROOUT, 0, 512));
        tell("its discard", extent(writer, BLKDISCARD, 0, 512));
        let zero = libc::FALLOC_FL_ZERO_RANGE;
        tell("its fallocate", libc::fallocate(writer, zero, 0, 512));
        let rights = PROT_READ | PROT_WRITE;
        try_map("shared, to write", writer, rights, MAP_SHARED);
        try_map("shared, to read", writer, PROT_READ, MAP_SHARED);
        try_map("private, to write", writer, rights, MAP_PRIVATE);
        try_map("shared, of a reader", reader, PROT_READ, MAP_SHARED);
        tell("BLKROSET from nowhere", libc::ioctl(file, BLKROSET as _, 0));
        tell("BLKROSET back", set_read_only(reader, 0));
        tell("write", write_at(file, [1].as_ptr(), 1, 0));
        try_map("shared, to write", writer, rights, MAP_SHARED);
        libc::close(writer);
        libc::close(reader);
    }
}

unsafe fn second_user(file: c_int) {
    unsafe {
        libc::setgid(1000);
        libc::setuid(1000);
        tell("a second user", open(O_RDONLY));
        tell("its BLKROSET", set_read_only(file, 1));
    }
}
