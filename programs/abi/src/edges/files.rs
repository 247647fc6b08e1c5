//! Files: permission to remove, execute, lease and signal; sizes, seals, holes and offsets.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libc::{O_CREAT, O_RDONLY, O_RDWR, c_int};

use super::{USER, become_user};
use crate::{in_child, path, tell, tell_end, tell_ok};

unsafe fn touch(name: &'static std::ffi::CStr) -> c_int {
    unsafe { libc::open(path(name), O_CREAT | O_RDWR, 0o644) }
}

/// Only the owner of the file or of its sticky directory may remove it there.
pub unsafe fn sticky() {
    unsafe {
        for (name, mode) in [(c"sticky", 0o1777), (c"plain", 0o777)] {
            libc::mkdir(path(name), 0o700);
            libc::chmod(path(name), mode);
        }
        for name in [c"sticky/root", c"sticky/own", c"plain/root"] {
            libc::close(touch(name));
        }
        libc::chown(path(c"sticky/own"), USER, USER);
        become_user(USER);
        tell("root's", libc::unlink(path(c"sticky/root")));
        tell(
            "moved",
            libc::rename(path(c"sticky/root"), path(c"sticky/mine")),
        );
        tell("own", libc::unlink(path(c"sticky/own")));
        tell("not sticky", libc::unlink(path(c"plain/root")));
    }
}

/// With CAP_DAC_OVERRIDE one may execute files that somebody may execute, but no others.
pub unsafe fn executed_by_root() {
    unsafe {
        libc::close(touch(c"text"));
        for mode in [0o644, 0o654, 0o645, 0o000] {
            libc::chmod(path(c"text"), mode);
            let allowed = libc::access(path(c"text"), libc::X_OK);
            tell(&format!("mode {mode:o}"), allowed);
        }
    }
}

static TOLD: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: c_int) {
    TOLD.fetch_add(1, Relaxed);
}

/// Only one's own files can be leased; an open continues when the holder closes the leased file.
pub unsafe fn leases() {
    unsafe {
        let file = touch(c"leased");
        libc::close(file);
        let status = in_child(|| {
            become_user(USER);
            let file = libc::open(path(c"leased"), O_RDONLY);
            let set = libc::fcntl(file, libc::F_SETLEASE, libc::F_RDLCK as c_int);
            tell("another's", set);
        });
        tell_end("another user", status);

        libc::signal(libc::SIGIO, count as *const () as usize);
        let file = libc::open(path(c"leased"), O_RDWR);
        let set = libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK as c_int);
        tell("own", set);
        let opener = libc::fork();
        if opener == 0 {
            libc::close(file);
            let start = Instant::now();
            tell_ok("opened", libc::open(path(c"leased"), O_RDWR) >= 0);
            println!("soon: {}", start.elapsed() < Duration::from_secs(30));
            libc::_exit(0);
        }
        while TOLD.load(Relaxed) == 0 {
            libc::usleep(1000);
        }
        libc::close(file);
        let mut status = 0;
        libc::waitpid(opener, &mut status, 0);
        tell_end("opener", status);
    }
}

/// A path may have 40 symbolic links, not 41.
pub unsafe fn links() {
    unsafe {
        libc::close(touch(c"target"));
        for number in 1..=42 {
            let before = match number {
                1 => "target".into(),
                _ => format!("link{}", number - 1),
            };
            let before = CString::new(before).unwrap_or_default();
            let name = CString::new(format!("link{number}")).unwrap_or_default();
            libc::symlink(before.as_ptr(), name.as_ptr());
            if number >= 39 {
                let opened = libc::open(name.as_ptr(), O_RDONLY);
                tell_ok(&format!("{number} links"), opened >= 0);
            }
        }
    }
}

/// RLIMIT_FSIZE limits ftruncate, fallocate and writes.
pub unsafe fn size_limit() {
    unsafe {
        let file = touch(c"limited");
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit {
            rlim_cur: 5000,
            rlim_max: 5000,
        };
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
        tell("to the limit", libc::ftruncate(file, 5000));
        tell("beyond", libc::ftruncate(file, 5001));
        tell("room beyond", libc::fallocate(file, 0, 0, 5001));
        tell(
            "written across",
            libc::pwrite(file, [0u8; 10].as_ptr().cast(), 10, 4995) as i64,
        );
        tell("by name", libc::truncate(path(c"limited"), 5001));
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        let status = in_child(|| {
            libc::ftruncate(file, 5001);
        });
        tell_end("not ignored", status);
    }
}

/// F_SEAL_SEAL freezes the seals, and a writable mapping prevents F_SEAL_WRITE.
pub unsafe fn seals() {
    unsafe {
        let file = libc::memfd_create(path(c"sealed"), libc::MFD_ALLOW_SEALING);
        libc::ftruncate(file, 8192);
        let add =
            |what: &str, seals: c_int| tell(what, libc::fcntl(file, libc::F_ADD_SEALS, seals));
        let map = |protection| {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                protection,
                libc::MAP_SHARED,
                file,
                0,
            )
        };
        let writable = map(libc::PROT_READ | libc::PROT_WRITE);
        add("while mapped", libc::F_SEAL_WRITE);
        tell("none is set", libc::fcntl(file, libc::F_GET_SEALS));
        libc::munmap(writable, 4096);
        add("unmapped", libc::F_SEAL_WRITE);
        add("the last", libc::F_SEAL_SEAL);
        add("after it", libc::F_SEAL_GROW);
        tell("seals", libc::fcntl(file, libc::F_GET_SEALS));
    }
}

/// A hole that begins and ends inside pages.
pub unsafe fn holes() {
    unsafe {
        let file = touch(c"pierced");
        for (offset, len) in [(100, 5000), (4096, 50), (10, 20), (8000, 5000)] {
            let bytes = [b'x'; 3 * 4096];
            libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0);
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let done = libc::fallocate(file, mode, offset, len);
            let mut bytes = [0u8; 3 * 4096];
            libc::pread(file, bytes.as_mut_ptr().cast(), bytes.len(), 0);
            let first = bytes.iter().position(|&byte| byte == 0);
            let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
            println!("{offset}+{len}: {done}, {zeros} from {first:?}");
        }
    }
}

/// A descriptor sends signals only to processes that its owner may signal.
pub unsafe fn owner_of_signals() {
    unsafe {
        libc::signal(libc::SIGIO, count as *const () as usize);
        let signalled = |user: Option<u32>| {
            let target = libc::getpid();
            let before = TOLD.load(Relaxed);
            in_child(|| {
                if let Some(user) = user {
                    become_user(user);
                }
                let mut ends = [0; 2];
                libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr());
                libc::fcntl(ends[0], libc::F_SETOWN, target);
                libc::fcntl(ends[0], libc::F_SETFL, libc::O_ASYNC);
                libc::write(ends[1], [1u8].as_ptr().cast(), 1);
            });
            TOLD.load(Relaxed) > before
        };
        println!("by root: {}", signalled(None));
        println!("by another user: {}", signalled(Some(USER)));
    }
}

/// No offset is beyond the largest signed number.
pub unsafe fn positions() {
    unsafe {
        let file = touch(c"long");
        let files = [
            ("file", file),
            ("directory", libc::open(path(c"."), O_RDONLY)),
            ("zeros", libc::open(path(c"/dev/zero"), O_RDONLY)),
            ("proc", libc::open(path(c"/proc/self/maps"), O_RDONLY)),
        ];
        for (name, file) in files {
            let seek = |what: &str, offset: i64, from: c_int| {
                tell(&format!("{name} {what}"), libc::lseek(file, offset, from));
            };
            seek("to the end", i64::MAX, libc::SEEK_SET);
            seek("beyond", 1, libc::SEEK_CUR);
            seek("far beyond", i64::MAX, libc::SEEK_CUR);
            seek("before", -1, libc::SEEK_SET);
        }
    }
}
