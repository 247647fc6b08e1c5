//! Notification of changes of files and directories: inotify's events and their order, watches that
//! end by themselves, limits, and dnotify's signals.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{mem, ptr};

use libc::{O_CREAT, O_RDONLY, O_RDWR, c_int};

use crate::{in_child, path, tell, tell_end, tell_ok};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::mkdir(path(c"folder"), 0o755);
        order();
        ends();
        limits();
        described();
        signals();
        created();
        opened();
        crowd();
    }
}

unsafe fn touch(name: &'static CStr) -> c_int {
    unsafe { libc::open(path(name), O_CREAT | O_RDWR, 0o644) }
}

unsafe fn watch(instance: c_int, name: &'static CStr, mask: u32) -> c_int {
    unsafe { libc::inotify_add_watch(instance, path(name), mask) }
}

/// Prints the queued events.
unsafe fn events(what: &str, instance: c_int) {
    const NAMES: [(u32, &str); 13] = [
        (libc::IN_MODIFY, "modify"),
        (libc::IN_ATTRIB, "attrib"),
        (libc::IN_CLOSE_WRITE, "close-write"),
        (libc::IN_CLOSE_NOWRITE, "close"),
        (libc::IN_OPEN, "open"),
        (libc::IN_MOVED_FROM, "from"),
        (libc::IN_MOVED_TO, "to"),
        (libc::IN_CREATE, "create"),
        (libc::IN_DELETE, "delete"),
        (libc::IN_DELETE_SELF, "delete-self"),
        (libc::IN_MOVE_SELF, "move-self"),
        (libc::IN_IGNORED, "ignored"),
        (libc::IN_Q_OVERFLOW, "overflow"),
    ];
    print!("{what}:");
    let mut bytes = [0u8; 4096];
    let count = unsafe { libc::read(instance, bytes.as_mut_ptr().cast(), bytes.len()) };
    let mut rest = &bytes[..count.max(0) as usize];
    while let Some((head, tail)) = rest.split_at_checked(16) {
        let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let (name, next) = tail.split_at(word(12) as usize);
        let name = CStr::from_bytes_until_nul(name).unwrap_or_default();
        print!(" {}", word(0) as i32);
        for (_, text) in NAMES.iter().filter(|(bit, _)| word(4) & bit != 0) {
            print!(",{text}");
        }
        print!(":{}", name.to_string_lossy());
        rest = next;
    }
    println!();
}

unsafe fn order() {
    unsafe {
        let instance = libc::inotify_init1(libc::IN_NONBLOCK);
        watch(instance, c"folder", libc::IN_ALL_EVENTS);
        let file = touch(c"folder/file");
        watch(instance, c"folder/file", libc::IN_ALL_EVENTS);
        events("made", instance);
        libc::chmod(path(c"folder/file"), 0o600);
        events("directory first", instance);
        libc::write(file, c"x".as_ptr().cast(), 1);
        libc::close(file);
        events("written and closed", instance);
        libc::rename(path(c"folder/file"), path(c"folder/other"));
        events("renamed", instance);
        libc::close(touch(c"folder/file"));
        events("made again", instance);
        libc::rename(path(c"folder/file"), path(c"folder/other"));
        events("renamed over what is watched", instance);
        watch(instance, c"folder/other", libc::IN_ALL_EVENTS);
        libc::link(path(c"folder/other"), path(c"folder/second"));
        libc::unlink(path(c"folder/second"));
        events("one of two names gone", instance);
        libc::unlink(path(c"folder/other"));
        events("unlinked", instance);
        libc::mkdir(path(c"folder/below"), 0o755);
        watch(instance, c"folder/below", libc::IN_ALL_EVENTS);
        libc::rmdir(path(c"folder/below"));
        events("a folder gone", instance);
        libc::close(instance);
    }
}

unsafe fn ends() {
    unsafe {
        for (name, more) in [
            ("once", libc::IN_ONESHOT),
            ("while it has a name", libc::IN_EXCL_UNLINK),
            ("always", 0),
        ] {
            let instance = libc::inotify_init1(libc::IN_NONBLOCK);
            watch(instance, c"folder", libc::IN_MODIFY | more);
            let file = touch(c"folder/file");
            libc::write(file, c"x".as_ptr().cast(), 1);
            events(name, instance);
            libc::unlink(path(c"folder/file"));
            libc::write(file, c"y".as_ptr().cast(), 1);
            events("after the unlink", instance);
            libc::close(file);
            libc::close(instance);
        }
    }
}

unsafe fn limits() {
    unsafe {
        let set = |name: &str, value: &str| {
            let place = format!("/proc/sys/fs/inotify/{name}");
            let before = std::fs::read_to_string(&place).unwrap_or_default();
            let wrote = std::fs::write(&place, value);
            println!("{name}: {}", wrote.is_ok());
            move || _ = std::fs::write(place, before)
        };
        let queue = set("max_queued_events", "3");
        let instance = libc::inotify_init1(libc::IN_NONBLOCK);
        queue();
        watch(instance, c"folder", libc::IN_CREATE | libc::IN_DELETE);
        for _ in 0..3 {
            libc::close(touch(c"folder/file"));
            libc::unlink(path(c"folder/file"));
        }
        events("three fit", instance);
        libc::close(instance);
        let watches = set("max_user_watches", "1");
        let instance = libc::inotify_init1(libc::IN_NONBLOCK);
        tell("one watch", watch(instance, c"folder", libc::IN_CREATE));
        tell("another", watch(instance, c".", libc::IN_CREATE));
        tell("the same", watch(instance, c"folder", libc::IN_DELETE));
        libc::inotify_rm_watch(instance, 1);
        tell("in its place", watch(instance, c".", libc::IN_CREATE));
        watches();
        let instances = set("max_user_instances", "1");
        tell("another instance", libc::inotify_init1(0));
        libc::close(instance);
        let instance = libc::inotify_init1(0);
        tell("in its place", libc::close(instance));
        instances();
    }
}

unsafe fn described() {
    unsafe {
        let instance = libc::inotify_init1(0);
        watch(instance, c"folder", libc::IN_CREATE | libc::IN_ONESHOT);
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{instance}"));
        for line in text.unwrap_or_default().lines() {
            for word in line
                .split(' ')
                .filter(|word| word.starts_with("mask") || word.starts_with("wd"))
            {
                println!("{word}");
            }
        }
        libc::close(instance);
    }
}

/// The number of signals so far, and the sum of their descriptors.
static SIGNALS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

extern "C" fn handler(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    SIGNALS[0].fetch_add(1, Relaxed);
    // SAFETY: the kernel passes a siginfo_t; for this signal the descriptor follows the eight bytes
    // of the band.
    let descriptor = unsafe { info.cast::<c_int>().add(6).read() };
    SIGNALS[1].fetch_add(descriptor as usize, Relaxed);
}

unsafe fn signals() {
    const DN_CREATE: c_int = 4;
    const DN_DELETE: c_int = 8;
    const DN_RENAME: c_int = 0x10;
    const DN_ATTRIB: c_int = 0x20;
    const DN_MULTISHOT: c_int = 1 << 31;
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        let signal = libc::SIGRTMIN();
        libc::sigaction(signal, &action, ptr::null_mut());
        let so_far = |what: &str, directory: c_int| {
            let [count, sum] = [&SIGNALS[0], &SIGNALS[1]].map(|number| number.swap(0, Relaxed));
            println!("{what}: {count} {}", sum == count * directory as usize);
        };
        let file = touch(c"folder/file");
        tell("of a file", libc::fcntl(file, libc::F_NOTIFY, DN_CREATE));
        let directory = libc::open(path(c"folder"), O_RDONLY);
        libc::fcntl(directory, 10 /* F_SETSIG */, signal);
        tell("once", libc::fcntl(directory, libc::F_NOTIFY, DN_CREATE));
        libc::close(touch(c"folder/one"));
        libc::close(touch(c"folder/two"));
        so_far("made two", directory);
        let wanted = DN_DELETE | DN_RENAME | DN_ATTRIB | DN_MULTISHOT;
        tell(
            "again and again",
            libc::fcntl(directory, libc::F_NOTIFY, wanted),
        );
        libc::unlink(path(c"folder/one"));
        so_far("deleted", directory);
        libc::rename(path(c"folder/two"), path(c"folder/three"));
        so_far("renamed in it", directory);
        libc::rename(path(c"folder/three"), path(c"three"));
        so_far("moved out of it", directory);
        libc::rename(path(c"three"), path(c"folder/three"));
        so_far("moved into it", directory);
        libc::chmod(path(c"folder/three"), 0o600);
        so_far("one's rights", directory);
        libc::chmod(path(c"folder"), 0o700);
        so_far("its own rights", directory);
        tell("no more", libc::fcntl(directory, libc::F_NOTIFY, 0));
        libc::unlink(path(c"folder/three"));
        so_far("deleted", directory);
        // A watch ends when its creator closes any descriptor of the file, even if others have it
        // open.
        let made = |what: &str| {
            libc::close(touch(c"folder/again"));
            libc::unlink(path(c"folder/again"));
            so_far(what, directory);
        };
        let wanted = DN_CREATE | DN_MULTISHOT;
        libc::fcntl(directory, libc::F_NOTIFY, wanted);
        let other = libc::dup(directory);
        made("by one of two");
        libc::close(other);
        made("the other is closed");
        libc::fcntl(directory, libc::F_NOTIFY, wanted);
        in_child(|| _ = libc::close(directory));
        made("a child closed it");
        in_child(|| {
            libc::fcntl(directory, libc::F_NOTIFY, wanted);
        });
        made("a child watched, too");
        libc::dup2(file, directory);
        made("another in its place");
        libc::close(directory);
        libc::close(file);
    }
}

/// F_CREATED_QUERY.
const F_CREATED_QUERY: c_int = 1028;

unsafe fn created() {
    unsafe {
        let made = touch(c"made");
        tell("made by this open", libc::fcntl(made, F_CREATED_QUERY));
        tell(
            "its flags",
            (libc::fcntl(made, libc::F_GETFL) & !0o7_777_777) as i64,
        );
        tell("made before", libc::fcntl(touch(c"made"), F_CREATED_QUERY));
        tell(
            "a device",
            libc::fcntl(libc::open(path(c"/dev/null"), O_RDONLY), F_CREATED_QUERY),
        );
    }
}

/// An open is reported before the close; an open that fails is not reported at all.
unsafe fn opened() {
    unsafe {
        let program = std::fs::copy("/proc/self/exe", "folder/program");
        let script = std::fs::write("folder/script", "#!folder/program x\n");
        println!("copied {} {}", program.is_ok(), script.is_ok());
        libc::chmod(path(c"folder/script"), 0o755);
        let held = touch(c"folder/held");
        libc::write(held, c"x".as_ptr().cast(), 1);
        libc::close(held);
        let instance = libc::inotify_init1(libc::IN_NONBLOCK);
        let mask = libc::IN_OPEN | libc::IN_CLOSE | libc::IN_MODIFY | libc::IN_CREATE;
        watch(instance, c"folder", mask);
        for (what, program) in [
            ("a program", c"folder/program"),
            ("a script", c"folder/script"),
        ] {
            let status = in_child(|| {
                let null = libc::open(path(c"/dev/null"), O_RDWR);
                libc::dup2(null, 2);
                let arguments = [path(program), ptr::null()];
                libc::execv(path(program), arguments.as_ptr());
            });
            tell_end(what, status);
            events(what, instance);
        }
        let open = |what: &str, name: &'static CStr, flags| {
            let file = libc::open(path(name), flags, 0o644);
            tell_ok(what, file >= 0);
            libc::close(file);
            events(what, instance);
        };
        open("shortened", c"folder/held", O_RDWR | libc::O_TRUNC);
        open("its name", c"folder/held", libc::O_PATH);
        open("no directory", c"folder/held", O_RDONLY | libc::O_DIRECTORY);
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        let holder = libc::open(path(c"folder/held"), O_RDONLY);
        libc::fcntl(holder, libc::F_SETLEASE, libc::F_RDLCK);
        events("leased", instance);
        open("what is leased", c"folder/held", O_RDWR | libc::O_NONBLOCK);
        libc::close(holder);
        events("leased no more", instance);
        std::fs::write("folder/held", "text").unwrap_or_default();
        events("written", instance);
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let none = libc::rlimit {
            rlim_cur: 3,
            ..limit
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &none);
        open("no descriptor", c"folder/new", O_RDWR | O_CREAT);
        open("nor to shorten", c"folder/held", O_RDWR | libc::O_TRUNC);
        open("nor of none", c"folder/absent", O_RDONLY);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        let len = std::fs::metadata("folder/held").map_or(0, |held| held.len());
        println!("as long as it was: {len}");
    }
}

/// Hundreds of instances watch one folder, half of them for a single event: each gets its events,
/// and they can be closed in any order.
unsafe fn crowd() {
    const COUNT: usize = 400;
    unsafe {
        let place = "/proc/sys/fs/inotify/max_user_instances";
        let before = std::fs::read_to_string(place).unwrap_or_default();
        println!("more {}", std::fs::write(place, "1000").is_ok());
        let limit = libc::rlimit {
            rlim_cur: 1000,
            rlim_max: 4096,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        let instances: Vec<c_int> = (0..COUNT)
            .map(|number| {
                let instance = libc::inotify_init1(libc::IN_NONBLOCK);
                let once = if number % 2 == 0 { libc::IN_ONESHOT } else { 0 };
                watch(instance, c"folder", libc::IN_CREATE | once);
                instance
            })
            .collect();
        for name in [c"folder/first", c"folder/second"] {
            libc::close(touch(name));
        }
        let mut told = [0; 8];
        for &instance in &instances {
            let mut bytes = [0u8; 4096];
            let count = libc::read(instance, bytes.as_mut_ptr().cast(), bytes.len());
            told[(count / 16) as usize % 8] += 1;
        }
        println!("told {told:?}");
        let parts = instances.chunks(COUNT / 4);
        for part in parts.rev() {
            part.iter().for_each(|&instance| _ = libc::close(instance));
        }
        _ = std::fs::write(place, before);
    }
}
