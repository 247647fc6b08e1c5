//! ioctl(2) on regular files and on the random devices.

use std::ffi::CStr;
use std::{fs, mem};

use libc::{O_APPEND, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY, c_int};

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        random();
        tell_end("a user's", in_child(|| random_of_user()));
        files();
    }
}

const RNDGETENTCNT: u32 = 0x8004_5200;
const RNDADDTOENTCNT: u32 = 0x4004_5201;
const RNDGETPOOL: u32 = 0x8008_5202;
const RNDADDENTROPY: u32 = 0x4008_5203;
const RNDZAPENTCNT: u32 = 0x5204;
const RNDCLEARPOOL: u32 = 0x5206;
const RNDRESEEDCRNG: u32 = 0x5207;

unsafe fn open(name: &CStr, flags: c_int) -> c_int {
    unsafe { libc::open(name.as_ptr(), flags, 0o644) }
}

unsafe fn control<T>(what: &str, file: c_int, request: u32, argument: *mut T) {
    tell(what, unsafe { libc::ioctl(file, request as _, argument) });
}

/// Every request to a random device, and some of other files.
unsafe fn random_controls(file: c_int) {
    unsafe {
        let nowhere = std::ptr::null_mut::<u8>();
        // The number of bits, and the number of bytes that follow.
        let mut added = [8, 4, 0x1234_5678_i32];
        control("entropy added", file, RNDADDENTROPY, &mut added);
        control("none", file, RNDADDENTROPY, &mut [8, 0]);
        control("no bits", file, RNDADDENTROPY, &mut [0, 4, 1]);
        control("fewer than none", file, RNDADDENTROPY, &mut [-1, 4, 1]);
        control("of fewer bytes", file, RNDADDENTROPY, &mut [1, -1, 1]);
        control("of nowhere", file, RNDADDENTROPY, nowhere);
        control("bits", file, RNDADDTOENTCNT, &mut 8);
        control("too few", file, RNDADDTOENTCNT, &mut -1);
        control("from nowhere", file, RNDADDTOENTCNT, nowhere);
        control("zapped", file, RNDZAPENTCNT, nowhere);
        control("cleared", file, RNDCLEARPOOL, nowhere);
        control("seeded", file, RNDRESEEDCRNG, nowhere);
        control("the pool", file, RNDGETPOOL, nowhere);
        control("the count, nowhere", file, RNDGETENTCNT, nowhere);
        let mut settings: libc::termios = mem::zeroed();
        control("a terminal's", file, 0x5401, &mut settings);
        control("left to read", file, 0x541b, &mut 0);
        control("the size of blocks", file, 2, &mut 0);
        control("the size", file, 0x5460, &mut 0_u64);
        control("of nothing", file, 0x1234_5678, nowhere);
    }
}

unsafe fn random() {
    unsafe {
        for name in [c"/dev/random", c"/dev/urandom"] {
            println!("{}", name.to_str().unwrap_or_default());
            random_controls(open(name, O_RDONLY));
        }
        let mut settings: libc::termios = mem::zeroed();
        control(
            "a pipe's",
            open(c"/dev/null", O_RDONLY),
            0x5401,
            &mut settings,
        );
    }
}

unsafe fn random_of_user() {
    unsafe {
        let file = open(c"/dev/urandom", O_RDWR);
        libc::setresuid(1000, 1000, 1000);
        random_controls(file);
    }
}

const FIBMAP: u32 = 1;
const FIFREEZE: u32 = 0xc004_5877;
const FITHAW: u32 = 0xc004_5878;
const FITRIM: u32 = 0xc018_5879;
const FICLONE: u32 = 0x4004_9409;
const FICLONERANGE: u32 = 0x4020_940d;
const FIDEDUPERANGE: u32 = 0xc018_9436;
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;

/// `struct file_dedupe_range` with one target.
#[repr(C)]
struct Dedupe {
    offset: u64,
    length: u64,
    targets: u16,
    reserved: [u16; 3],
    target: i64,
    target_offset: u64,
    bytes: u64,
    status: i32,
    target_reserved: u32,
}

unsafe fn clones(file: c_int, from: c_int) {
    unsafe {
        tell("  clone", libc::ioctl(file, FICLONE as _, from));
        tell("  clone of nothing", libc::ioctl(file, FICLONE as _, 999));
        let mut range = [from as u64, 0, 1, 0];
        control("  clone a range", file, FICLONERANGE, &mut range);
        control(
            "  from nowhere",
            file,
            FICLONERANGE,
            std::ptr::dangling_mut::<u64>(),
        );
        let mut same = Dedupe {
            offset: 0,
            length: 1,
            targets: 1,
            reserved: [0; 3],
            target: from.into(),
            target_offset: 0,
            bytes: 7,
            status: 7,
            target_reserved: 0,
        };
        control("  dedupe", file, FIDEDUPERANGE, &mut same);
        println!("  {} {}", same.bytes, same.status);
        same.reserved[0] = 1;
        control("  oddly", file, FIDEDUPERANGE, &mut same);
        (same.reserved[0], same.targets) = (0, 1000);
        control("  very many", file, FIDEDUPERANGE, &mut same);
        same.targets = 0;
        control("  none", file, FIDEDUPERANGE, &mut same);
    }
}

/// Requests that every file system handles, on files of tmpfs.
unsafe fn files() {
    unsafe {
        libc::mkdir(c"at".as_ptr(), 0o755);
        let (none, at) = (c"none".as_ptr(), c"at".as_ptr());
        tell(
            "tmpfs",
            libc::mount(none, at, c"tmpfs".as_ptr(), 0, std::ptr::null()),
        );
        let _ = (fs::write("at/file", "text"), fs::write("at/other", "text"));
        libc::mkfifo(c"at/fifo".as_ptr(), 0o644);
        let file = open(c"at/file", O_RDWR);
        let opened = [
            ("a file", file),
            ("to read", open(c"at/file", O_RDONLY)),
            ("to write", open(c"at/file", O_WRONLY)),
            ("to append", open(c"at/file", O_WRONLY | O_APPEND)),
            ("a folder", open(c"at", O_RDONLY | O_DIRECTORY)),
            ("a pipe", open(c"at/fifo", O_RDWR)),
            ("a device", open(c"/dev/null", O_RDWR)),
            ("a file of proc", open(c"/proc/self/comm", O_RDWR)),
        ];
        let other = open(c"at/other", O_RDWR | O_CREAT);
        for (what, opened) in opened {
            println!("{what}");
            clones(opened, other);
            println!("  from it");
            clones(file, opened);
            if what != "a device" {
                all(opened);
            }
        }
        let user = || {
            libc::setresuid(1000, 1000, 1000);
            all(file);
        };
        tell_end("a user", in_child(user));
        libc::close(file);
    }
}

unsafe fn all(file: c_int) {
    unsafe {
        let mut block = 0_i32;
        control("  block", file, FIBMAP, &mut block);
        block = -1;
        control("  block -1", file, FIBMAP, &mut block);
        println!("  {block}");
        block = 3;
        control("  block 3", file, FIBMAP, &mut block);
        println!("  {block}");
        control(
            "  block nowhere",
            file,
            FIBMAP,
            std::ptr::dangling_mut::<i32>(),
        );
        control("  freeze", file, FIFREEZE, &mut block);
        control("  thaw", file, FITHAW, &mut block);
        control("  trim", file, FITRIM, &mut [0_u64; 3]);
        control("  extents", file, FS_IOC_FIEMAP, &mut [0_u64; 4]);
        control(
            "  extents, nowhere",
            file,
            FS_IOC_FIEMAP,
            std::ptr::dangling_mut::<u64>(),
        );
        control("  version", file, FS_IOC_GETVERSION, &mut 0_u64);
        control("  of nothing", file, 0x1234_5678, &mut 0_u64);
    }
}
