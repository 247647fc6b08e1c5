//! Keys and keyrings.

use std::ffi::CString;
use std::ptr;

use libc::{c_char, c_long};

use crate::{in_child, tell, tell_end};

const THREAD: i32 = -1;
const PROCESS: i32 = -2;
const SESSION: i32 = -3;
const USER: i32 = -4;
const USER_SESSION: i32 = -5;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        tell_end("kinds", in_child(|| kinds()));
        tell_end("rings", in_child(|| rings()));
        tell_end("states", in_child(|| states()));
        tell_end("rights", in_child(|| rights()));
        tell_end("no rights of the group", in_child(|| without_group()));
        tell_end("invalidated", in_child(|| invalidated()));
        tell_end("inherited", in_child(|| inherited()));
        tell_end("links", in_child(|| links()));
        tell_end("negative", in_child(|| negative()));
        tell_end("listed", in_child(|| listed()));
        tell_end("renewed", in_child(|| renewed()));
        tell_end("many", in_child(|| many()));
        tell_end("possessed", in_child(|| possessed()));
        tell_end("possessed specially", in_child(|| possessed_specially()));
        tell_end("charged", in_child(|| charged()));
        tell_end("overrun", in_child(|| overrun()));
        tell_end("given away", in_child(|| given_away()));
    }
}

/// All rights of the possessor, and all but the search right.
const ALL: c_long = 0x3f00_0000;
const CLOSED: c_long = 0x3700_0000;

/// A keyring gives possession of its keys only if it may be searched, and only of keys that may be
/// searched.
unsafe fn possessed() {
    unsafe {
        let ring = add(c"keyring".as_ptr(), c"ring".as_ptr(), b"", PROCESS);
        let key = add(c"user".as_ptr(), c"in it".as_ptr(), b"1", ring as i32);
        let tell_all = |what: &str| {
            println!("{what}: ring {}, key {}", describe(ring), describe(key));
            tell("read the ring", control(11, ring, 0, 0, 0));
            tell("read the key", control(11, key, 0, 0, 0));
            let text = c"2".as_ptr().expose_provenance() as c_long;
            tell("update", control(2, key, text, 1, 0));
            let (kind, name) = (c"user".as_ptr(), c"in it".as_ptr());
            tell_key("found", request(kind, name, 0));
            let (kind, name) = (kind as c_long, name as c_long);
            tell_key("searched", control(10, ring, kind, name, 0));
            tell_key("from above", control(10, PROCESS.into(), kind, name, 0));
            let listed = std::fs::read_to_string("/proc/keys").unwrap_or_default();
            let seen = |key: c_long| listed.contains(&format!("{key:08x} "));
            println!("listed: {} {}", seen(ring), seen(key));
        };
        control(5, ring, ALL, 0, 0);
        control(5, key, ALL, 0, 0);
        tell_all("open");
        control(5, key, CLOSED, 0, 0);
        tell_all("a closed key");
        tell("opened", control(5, key, ALL, 0, 0));
        let beside = add(c"user".as_ptr(), c"beside".as_ptr(), b"1", PROCESS);
        control(5, beside, 0x0300_0000, 0, 0);
        tell("seen and read", control(11, beside, 0, 0, 0));
        println!("{}", describe(beside));
        let shown = add(c"user".as_ptr(), c"shown".as_ptr(), b"1", ring as i32);
        control(5, shown, ALL | 0x3_0000, 0, 0);
        control(5, ring, CLOSED, 0, 0);
        tell_all("a closed ring");
        println!("{}", describe(shown));
        tell("read what all may", control(11, shown, 0, 0, 0));
        tell("opened", control(5, ring, ALL, 0, 0));
    }
}

/// The caller possesses its own keyrings through their special IDs, whether they may be searched or
/// not.
unsafe fn possessed_specially() {
    unsafe {
        libc::setresuid(1073, 1073, 1073);
        control(1, 0, 0, 0, 0);
        let key = add(c"user".as_ptr(), c"in it".as_ptr(), b"1", PROCESS);
        let ring = control(0, PROCESS.into(), 0, 0, 0);
        control(5, key, ALL, 0, 0);
        tell("closed", control(5, PROCESS.into(), CLOSED, 0, 0));
        println!("{} {}", describe(PROCESS.into()), describe(ring));
        tell("the key", control(11, key, 0, 0, 0));
        tell("the ring", control(11, PROCESS.into(), 0, 0, 0));
        tell("the ring, by its number", control(11, ring, 0, 0, 0));
        tell_key("found", request(c"user".as_ptr(), c"in it".as_ptr(), 0));
        tell_key("its number", control(0, PROCESS.into(), 0, 0, 0));
        let again = add(c"user".as_ptr(), c"in it".as_ptr(), b"1", PROCESS);
        println!("renewed: {}", again == key);
        tell("opened", control(5, PROCESS.into(), ALL, 0, 0));
        tell("the key", control(11, key, 0, 0, 0));
        // The session keyring links none of the user's keyrings.
        let other = add(c"user".as_ptr(), c"the user's".as_ptr(), b"1", USER);
        control(5, other, ALL, 0, 0);
        println!("{}", describe(other));
        tell(
            "the user's",
            control(5, USER.into(), ALL & !0x2000_0000, 0, 0),
        );
        println!("{}", describe(USER.into()));
        let number = control(0, USER.into(), 0, 0, 0);
        println!("by its number: {}", describe(number));
    }
}

/// The numbers of keys and bytes that a user has, and the quotas.
fn quota(user: u32) -> String {
    let users = std::fs::read_to_string("/proc/key-users").unwrap_or_default();
    let line = users
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{user}:")));
    let fields: Vec<_> = line
        .unwrap_or_default()
        .split_whitespace()
        .skip(2)
        .collect();
    fields.join(" ")
}

/// Parts of keys that count against the quota: descriptions, payloads, links.
unsafe fn charged() {
    const WHO: u32 = 1074;
    let text = |len: usize| vec![b'x'; len];
    unsafe {
        libc::setresuid(WHO, WHO, WHO);
        let told = |what: &str| println!("{what}: {}", quota(WHO));
        told("none");
        control(0, PROCESS.into(), 1, 0, 0);
        told("a process's");
        control(0, USER.into(), 0, 0, 0);
        told("the user's");
        let ring = add(c"keyring".as_ptr(), c"ring".as_ptr(), b"", PROCESS);
        told("a ring");
        let user = |name: &std::ffi::CStr, len: usize, ring: i32| {
            add(c"user".as_ptr(), name.as_ptr(), &text(len), ring)
        };
        let key = user(c"ab", 10, ring as i32);
        told("ten bytes");
        user(c"ab", 20, ring as i32);
        told("twenty");
        control(8, key, PROCESS.into(), 0, 0);
        told("linked again");
        control(8, key, PROCESS.into(), 0, 0);
        told("and again");
        control(9, key, PROCESS.into(), 0, 0);
        told("unlinked");
        tell_key("too many", user(c"cd", 19_000, ring as i32));
        tell_key("too many more", user(c"cd", 19_800, ring as i32));
        told("after it");
        control(3, key, 0, 0, 0);
        told("revoked");
        control(7, ring, 0, 0, 0);
        told_soon("cleared", WHO, "4/200");
        tell("a ring revoked", control(3, ring, 0, 0, 0));
        let logon = add(c"logon".as_ptr(), c"a:b".as_ptr(), &text(7), PROCESS);
        tell_key("a secret", logon);
        told("with it");
    }
}

/// Prints the quota once `keys` keys are left: they are freed some time after the last unlink.
fn told_soon(what: &str, user: u32, keys: &str) {
    for _ in 0..6000 {
        if quota(user).starts_with(keys) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    println!("{what}: {}", quota(user));
}

/// Thread and process keyrings and a first session keyring are created even beyond the quota.
unsafe fn overrun() {
    const WHO: u32 = 1075;
    unsafe {
        libc::setresuid(WHO, WHO, WHO);
        let user = c"user".as_ptr();
        let ring = add(c"keyring".as_ptr(), c"ring".as_ptr(), b"", USER);
        let used: usize = quota(WHO)
            .rsplit(' ')
            .next()
            .and_then(|bytes| bytes.split('/').next()?.parse().ok())
            .unwrap_or(0);
        let all = vec![b'x'; 20_000 - used - 4 - 4];
        tell_key(
            "one more than all",
            add(user, c"abcd".as_ptr(), &all, ring as i32),
        );
        tell_key("all", add(user, c"abc".as_ptr(), &all, ring as i32));
        println!("{}", quota(WHO));
        tell_key(
            "another",
            add(c"keyring".as_ptr(), c"a".as_ptr(), b"", ring as i32),
        );
        tell("another link", control(8, ring, USER_SESSION.into(), 0, 0));
        tell_key("a thread's", control(0, THREAD.into(), 1, 0, 0));
        tell_key("a process's", control(0, PROCESS.into(), 1, 0, 0));
        tell_key("a session", control(1, 0, 0, 0, 0));
        tell_key("another session", control(1, 0, 0, 0, 0));
        let name = c"named".as_ptr().expose_provenance() as c_long;
        tell_key("a named session", control(1, name, 0, 0, 0));
        println!("{}", quota(WHO));
    }
}

/// A key that changes its owner counts against the quota of the new one.
unsafe fn given_away() {
    const WHO: c_long = 1076;
    let to = |user| quota(user as u32);
    unsafe {
        let key = add(
            c"user".as_ptr(),
            c"given".as_ptr(),
            &[b'x'; 12_000],
            PROCESS,
        );
        tell("given", control(4, key, WHO, -1, 0));
        println!("{}", to(WHO));
        let other = add(c"user".as_ptr(), c"also".as_ptr(), &[b'x'; 12_000], PROCESS);
        tell("too much", control(4, other, WHO, -1, 0));
        println!("{} {}", describe(other), to(WHO));
        tell("a thread's", control(4, THREAD.into(), WHO, -1, 0));
        println!("{}", to(WHO));
        tell("back", control(4, key, 0, -1, 0));
        println!("{}", to(WHO));
    }
}

/// Keys with the same names in a keyring and in one that it links: a search finds each by its name,
/// and the nearer one first.
unsafe fn many() {
    let name = |number: u32| CString::new(format!("many {}", number * 7 % 20)).unwrap();
    unsafe {
        let ring = add(c"keyring".as_ptr(), c"outer".as_ptr(), b"", PROCESS);
        let inner = add(c"keyring".as_ptr(), c"inner".as_ptr(), b"", ring as i32);
        let user = c"user".as_ptr();
        let fill = |ring: c_long, numbers: std::ops::Range<u32>| -> Vec<c_long> {
            let key = |number| add(user, name(number).as_ptr(), b"1", ring as i32);
            numbers.map(key).collect()
        };
        let (near, deep) = (fill(ring, 0..16), fill(inner, 0..20));
        let find = |number: u32| {
            let name = name(number);
            let (kind, name) = (user as c_long, name.as_ptr() as c_long);
            control(10, ring, kind, name, 0)
        };
        let right = |number: &u32| match near.get(*number as usize) {
            Some(key) => find(*number) == *key,
            None => find(*number) == deep[*number as usize],
        };
        println!("found: {}", (0..20).filter(right).count());
        tell_key("another's link", control(9, deep[3], ring, 0, 0));
        println!("deep then: {}", find(3) == deep[3]);
        tell_key("revoked", control(3, near[5], 0, 0, 0));
        println!("deep then: {}", find(5) == deep[5]);
        control(5, deep[6], 0x3700_0000, 0, 0);
        control(9, near[6], ring, 0, 0);
        tell_key("may not be searched", find(6));
        control(5, inner, 0x3700_0000, 0, 0);
        tell_key("in what may not be searched", find(3));
        println!("near still: {}", find(7) == near[7]);
        println!("length: {}", control(11, ring, 0, 0, 0));
    }
}

/// A new payload counts in place of the old one, up to the user's limit.
unsafe fn renewed() {
    let payload = [b'x'; 12_000];
    unsafe {
        libc::setresuid(1071, 1071, 1071);
        for len in [12_000, 11_000, 12_000] {
            let key = add(
                c"user".as_ptr(),
                c"renewed".as_ptr(),
                &payload[..len],
                PROCESS,
            );
            tell_key(&format!("{len} bytes"), key);
        }
        let other = add(c"user".as_ptr(), c"beside".as_ptr(), &payload, PROCESS);
        tell_key("as many beside", other);
    }
}

/// /proc/keys, without serial numbers and usage counts.
unsafe fn listed() {
    let ring = unsafe { control(0, -2, 1, 0, 0) };
    tell_key("ring", ring);
    let key = unsafe { add(c"user".as_ptr(), c"listed one".as_ptr(), b"12345", -2) };
    let other = unsafe { add(c"keyring".as_ptr(), c"listed ring".as_ptr(), b"", -2) };
    unsafe {
        control(15, key, 700_000, 0, 0);
        control(5, other, 0x3f01_0000, 0, 0);
        add(c"user".as_ptr(), c"listed two".as_ptr(), b"1", other as i32);
    }
    let keys = std::fs::read_to_string("/proc/keys").unwrap_or_default();
    let known = |line: &str| Some(format!("{} {}", line.get(9..16)?, line.get(23..)?));
    let listed = keys.lines().filter(|line| line.contains("listed"));
    // They are sorted by their serial numbers, which are random.
    let mut listed: Vec<_> = listed.filter_map(known).collect();
    listed.sort();
    listed.iter().for_each(|line| println!("{line}"));
    let users = std::fs::read_to_string("/proc/key-users").unwrap_or_default();
    let root = users.lines().find(|line| line.starts_with("    0: "));
    println!("users: {}", root.map_or(0, |line| line.split('/').count()));
}

unsafe fn add(kind: *const c_char, name: *const c_char, payload: &[u8], ring: i32) -> c_long {
    let (at, len) = (payload.as_ptr(), payload.len());
    unsafe { libc::syscall(libc::SYS_add_key, kind, name, at, len, ring) }
}

unsafe fn control(operation: i32, a: c_long, b: c_long, c: c_long, d: c_long) -> c_long {
    unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, c, d) }
}

unsafe fn request(kind: *const c_char, name: *const c_char, ring: i32) -> c_long {
    let none = ptr::null::<c_char>();
    unsafe { libc::syscall(libc::SYS_request_key, kind, name, none, ring) }
}

/// Prints the error, or success: serial numbers differ.
fn tell_key(what: &str, key: c_long) {
    match key {
        1.. => println!("{what}: a key"),
        _ => tell(what, key),
    }
}

unsafe fn describe(key: c_long) -> String {
    unsafe {
        let mut text = [0u8; 128];
        let len = control(
            6,
            key,
            text.as_mut_ptr().expose_provenance() as c_long,
            128,
            0,
        );
        match usize::try_from(len) {
            Ok(len) => String::from_utf8_lossy(&text[..len - 1]).into_owned(),
            Err(_) => crate::error().to_owned(),
        }
    }
}

unsafe fn kinds() {
    unsafe {
        for (kind, name, len) in [
            (c"user", c"a", 1),
            (c"user", c"a", 0),
            (c"user", c"a", 32767),
            (c"user", c"a", 32768),
            (c"keyring", c"a", 0),
            (c"keyring", c"a", 1),
            (c"keyring", c".a", 0),
            (c"logon", c"a", 1),
            (c"logon", c"a:b", 1),
            (c"logon", c":b", 1),
            (c"none such", c"a", 1),
            (c".odd", c"a", 1),
            (c"", c"a", 1),
            (c"user", c"", 1),
        ] {
            let key = add(kind.as_ptr(), name.as_ptr(), &vec![7; len], THREAD);
            tell_key(&format!("{kind:?} {name:?} {len}"), key);
            if key > 0 {
                println!("{}", describe(key));
            }
        }
        let nowhere = libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            c"b".as_ptr(),
            0,
            5,
            THREAD,
        );
        tell_key("content nowhere", nowhere);
        tell_key(
            "kind nowhere",
            libc::syscall(libc::SYS_add_key, 1, c"b".as_ptr(), 0, 0, THREAD),
        );
        tell_key(
            "no such ring",
            add(c"user".as_ptr(), c"b".as_ptr(), b"x", 77),
        );
        tell_key(
            "no such special ring",
            add(c"user".as_ptr(), c"b".as_ptr(), b"x", -99),
        );
    }
}

unsafe fn rings() {
    unsafe {
        tell_key("none yet", control(0, THREAD.into(), 0, 0, 0));
        tell_key("made", control(0, THREAD.into(), 1, 0, 0));
        for ring in [THREAD, PROCESS, USER, USER_SESSION] {
            tell_key("ring", control(0, ring.into(), 1, 0, 0));
            println!("{}", describe(ring.into()));
        }
        tell_key("a session", control(1, 0, 0, 0, 0));
        println!("{}", describe(SESSION.into()));
        tell_key(
            "a reserved name",
            control(1, c".odd".as_ptr().expose_provenance() as c_long, 0, 0, 0),
        );
        let name = c"of this test".as_ptr().expose_provenance() as c_long;
        let first = control(1, name, 0, 0, 0);
        println!("{}", describe(SESSION.into()));
        tell(
            "the same again",
            (control(1, name, 0, 0, 0) == first) as i32,
        );
        tell("where keys go", control(14, -1, 0, 0, 0));
        tell("to the thread's", control(14, 1, 0, 0, 0));
        tell("they went", control(14, 0, 0, 0, 0));
        tell("nowhere", control(14, 9, 0, 0, 0));
        tell("an odd operation", control(99, 0, 0, 0, 0));
    }
}

unsafe fn read(key: c_long, room: usize) -> (c_long, Vec<u8>) {
    unsafe {
        let mut bytes = vec![0u8; 16];
        let at = bytes.as_mut_ptr().expose_provenance() as c_long;
        let len = control(11, key, at, room as c_long, 0);
        (len, bytes[..(len.max(0) as usize).min(room)].to_vec())
    }
}

unsafe fn states() {
    unsafe {
        let key = add(c"user".as_ptr(), c"state".as_ptr(), b"first", THREAD);
        println!("{:?}", read(key, 16));
        println!("short {:?}", read(key, 3).0);
        for room in [0, 1, 3, 4, 6, 8] {
            println!("a ring in {room}: {}", read(THREAD.into(), room).0);
        }
        let again = add(c"user".as_ptr(), c"state".as_ptr(), b"second", THREAD);
        println!("the same key {} {:?}", again == key, read(key, 16));
        let third = b"third";
        tell(
            "update",
            control(2, key, third.as_ptr().expose_provenance() as c_long, 5, 0),
        );
        println!("{:?}", read(key, 16));
        let page = [b'x'; 4097];
        let long = page.as_ptr().expose_provenance() as c_long;
        tell("update of a page", control(2, key, long, 4096, 0));
        tell("of more", control(2, key, long, 4097, 0));
        tell("of nothing", control(2, key, long, 0, 0));
        tell("update a ring", control(2, THREAD.into(), 0, 0, 0));
        println!(
            "found {}",
            request(c"user".as_ptr(), c"state".as_ptr(), 0) == key
        );
        tell_key("not there", request(c"user".as_ptr(), c"other".as_ptr(), 0));
        tell_key(
            "of another kind",
            request(c"logon".as_ptr(), c"state".as_ptr(), 0),
        );
        tell_key(
            "of no kind",
            request(c"none such".as_ptr(), c"state".as_ptr(), 0),
        );
        println!(
            "searched {}",
            control(
                10,
                THREAD.into(),
                c"user".as_ptr().expose_provenance() as c_long,
                c"state".as_ptr().expose_provenance() as c_long,
                0
            ) == key
        );
        tell("expires", control(15, key, 1000, 0, 0));
        tell("revoke", control(3, key, 0, 0, 0));
        tell("read", read(key, 16).0);
        tell("revoke again", control(3, key, 0, 0, 0));
        tell("describe", control(6, key, 0, 0, 0));
        tell_key("found", request(c"user".as_ptr(), c"state".as_ptr(), 0));
        let logon = add(c"logon".as_ptr(), c"a:b".as_ptr(), b"secret", THREAD);
        tell("read what nobody may", read(logon, 16).0);
        tell("read no key", read(77, 16).0);
        tell("revoke no key", control(3, 77, 0, 0, 0));
        tell("describe no key", control(6, 77, 0, 0, 0));
    }
}

unsafe fn rights() {
    unsafe {
        let key = add(c"user".as_ptr(), c"right".as_ptr(), b"x", PROCESS);
        tell("odd rights", control(5, key, 0xc000_0000, 0, 0));
        tell("only to be seen", control(5, key, 0x0101_0000, 0, 0));
        println!("{}", describe(key));
        tell("read", read(key, 16).0);
        tell(
            "update",
            control(2, key, c"y".as_ptr().expose_provenance() as c_long, 1, 0),
        );
        tell_key("found", request(c"user".as_ptr(), c"right".as_ptr(), 0));
        tell("link", control(8, key, THREAD.into(), 0, 0));
        tell("rights again", control(5, key, 0x3f3f_0000, 0, 0));
        let other = add(c"user".as_ptr(), c"own".as_ptr(), b"x", PROCESS);
        tell("given away", control(4, other, 1000, -1, 0));
        tell_end(
            "another user",
            in_child(|| {
                libc::setresuid(1000, 1000, 1000);
                println!("{}", describe(key));
                tell("read", read(key, 16).0);
                println!("{}", describe(other));
                tell("to another", control(4, other, 5, -1, 0));
            }),
        );
    }
}

/// A member of the key's group has the rights of others, if the group has none.
unsafe fn without_group() {
    const GROUP: c_long = 1077;
    unsafe {
        let key = add(c"user".as_ptr(), c"of a group".as_ptr(), b"x", PROCESS);
        tell("to a group", control(4, key, -1, GROUP, 0));
        for permissions in [0x3f3f_0003, 0x3f3f_0103, 0x3f3f_0200] {
            tell("rights", control(5, key, permissions, 0, 0));
            let member = || {
                libc::setresgid(GROUP as u32, GROUP as u32, GROUP as u32);
                libc::setresuid(1077, 1077, 1077);
                tell("read", read(key, 16).0);
                let text = control(6, key, 0, 0, 0);
                tell("described", text.min(0));
            };
            tell_end("a member", in_child(member));
        }
    }
}

/// KEYCTL_INVALIDATE: the key is unusable at once, and soon in no keyring.
unsafe fn invalidated() {
    unsafe {
        let ring = add(c"keyring".as_ptr(), c"ring".as_ptr(), b"", PROCESS);
        let key = add(c"user".as_ptr(), c"invalid".as_ptr(), b"x", ring as i32);
        add(c"user".as_ptr(), c"valid".as_ptr(), b"x", ring as i32);
        tell("linked again", control(8, key, PROCESS.into(), 0, 0));
        // The rights do not depend on possession, which ends when the collector has run.
        for key in [ring, key] {
            tell("all rights", control(5, key, 0x3f3f_0000, 0, 0));
        }
        tell("invalidate", control(21, key, 0, 0, 0));
        tell("read", read(key, 16).0);
        tell("update", control(2, key, c"y".as_ptr() as c_long, 1, 0));
        tell("again", control(21, key, 0, 0, 0));
        tell("described", control(6, key, 0, 0, 0));
        let bytes = || (read(ring, 16).0, read(PROCESS.into(), 16).0);
        for _ in 0..6000 {
            if bytes() == (4, 4) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        println!("bytes of both rings: {:?}", bytes());
        tell_key("found", request(c"user".as_ptr(), c"invalid".as_ptr(), 0));
        tell("a ring", control(21, ring, 0, 0, 0));
        tell("its bytes", read(ring, 16).0);
        tell_key("found", request(c"user".as_ptr(), c"valid".as_ptr(), 0));
    }
}

unsafe fn inherited() {
    unsafe {
        control(1, 0, 0, 0, 0);
        let keys = [THREAD, PROCESS, SESSION]
            .map(|ring| add(c"user".as_ptr(), c"kept".as_ptr(), b"x", ring));
        println!("three {}", keys.iter().all(|&key| key > 0));
        println!(
            "the thread's first {}",
            request(c"user".as_ptr(), c"kept".as_ptr(), 0) == keys[0]
        );
        tell_end(
            "a child",
            in_child(|| {
                println!(
                    "the session's {}",
                    request(c"user".as_ptr(), c"kept".as_ptr(), 0) == keys[2]
                );
                tell_key("a thread's ring", control(0, THREAD.into(), 0, 0, 0));
                tell_key("a process's ring", control(0, PROCESS.into(), 0, 0, 0));
            }),
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                println!(
                    "the process's {}",
                    request(c"user".as_ptr(), c"kept".as_ptr(), 0) == keys[1]
                );
            });
        });
    }
}

unsafe fn links() {
    unsafe {
        let ring = |name: *const c_char, above: i32| add(c"keyring".as_ptr(), name, b"", above);
        let outer = ring(c"outer".as_ptr(), PROCESS);
        let inner = ring(c"inner".as_ptr(), outer as i32);
        let key = add(c"user".as_ptr(), c"deep".as_ptr(), b"x", inner as i32);
        println!(
            "found {}",
            request(c"user".as_ptr(), c"deep".as_ptr(), 0) == key
        );
        tell("in itself", control(8, outer, inner, 0, 0));
        tell("into a key", control(8, outer, key, 0, 0));
        tell("also here", control(8, key, outer, 0, 0));
        println!("{} bytes of numbers", read(outer, 16).0);
        tell("not here any more", control(9, key, outer, 0, 0));
        tell("again", control(9, key, outer, 0, 0));
        tell("clear", control(7, inner, 0, 0, 0));
        tell_key("found", request(c"user".as_ptr(), c"deep".as_ptr(), 0));
        tell("no ring", control(9, inner, 77, 0, 0));
    }
}

/// A negative key, after a request that nobody could satisfy.
unsafe fn negative() {
    unsafe {
        let (kind, name, callout) = (c"user".as_ptr(), c"nothing".as_ptr(), c"callout".as_ptr());
        let asked = libc::syscall(libc::SYS_request_key, kind, name, callout, PROCESS);
        tell("asked", asked);
        let mut keys = [0i32; 4];
        let to = (&raw mut keys).expose_provenance() as c_long;
        tell("the ring", control(11, PROCESS.into(), to, 16, 0));
        tell("read", control(11, keys[0].into(), 0, 0, 0));
        println!("{}", describe(keys[0].into()));
        tell("again", request(kind, name, 0));
        tell("in time", control(15, keys[0].into(), 100, 0, 0));
        tell("update", control(2, keys[0].into(), to, 4, 0));
        tell(
            "asked again",
            libc::syscall(libc::SYS_request_key, kind, name, callout, PROCESS),
        );
        tell("added", c_long::from(add(kind, name, b"1", PROCESS) > 0));
        tell("found", c_long::from(request(kind, name, 0) > 0));
    }
}
