//! Unix sockets queued in one another that no program can receive any more: they are freed soon
//! after the last descriptor is closed, even while others are being freed.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{fs, thread};

use libc::{SCM_RIGHTS, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, c_int};

use crate::unix::{pair, send_with};

/// Sockets that wait in a large circle, and their number in one message.
const LARGE: usize = 400;
const OF_MESSAGE: usize = 50;
/// How often a circle is closed while another is being freed, each time a little later.
const ROUNDS: u32 = 20;
const LATER: Duration = Duration::from_millis(1);

/// Runs this part.
pub fn run() {
    let before = used();
    let mut left = 0;
    for round in 0..ROUNDS {
        // SAFETY: closes only its own descriptors.
        unsafe {
            let large = circle(LARGE);
            let last = circle(0);
            let begun = AtomicBool::new(false);
            thread::scope(|scope| {
                // On another CPU, if there is one: this CPU may be busy with freeing the large
                // circle.
                scope.spawn(|| {
                    while !begun.load(SeqCst) {
                        thread::yield_now();
                    }
                    let until = Instant::now() + LATER * round;
                    while Instant::now() < until {}
                    last.iter().for_each(|&file| _ = libc::close(file));
                });
                begun.store(true, SeqCst);
                large.iter().for_each(|&file| _ = libc::close(file));
            });
        }
        left += u32::from(!falls_to(before));
    }
    println!("left: {left}");
}

/// The number of sockets in use.
fn used() -> usize {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let used = text.split_whitespace().nth(2);
    used.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Waits until there are at most `before` sockets.
fn falls_to(before: usize) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    while used() > before {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A socket that waits in its own queue, with `more` others, and the socket that sent them.
unsafe fn circle(more: usize) -> [c_int; 2] {
    let [inner, outer] = pair(SOCK_STREAM);
    let send = |files: &[c_int]| {
        let data: Vec<u8> = files.iter().flat_map(|file| file.to_ne_bytes()).collect();
        // SAFETY: the descriptors are copied.
        let sent = unsafe { send_with(outer, b"x", (SOL_SOCKET, SCM_RIGHTS), &data) };
        assert_eq!(sent, 1);
    };
    send(&[inner]);
    for _ in 0..more / OF_MESSAGE {
        // SAFETY: no pointer is passed, and only its own descriptors are closed.
        unsafe {
            let files = [0; OF_MESSAGE].map(|_| libc::socket(libc::AF_UNIX, SOCK_DGRAM, 0));
            send(&files);
            files.iter().for_each(|&file| _ = libc::close(file));
        }
    }
    [inner, outer]
}
