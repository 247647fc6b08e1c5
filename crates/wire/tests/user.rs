//! Users of jobs.

use wire::user::{User, resolve};

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
app:x:1000:1001::/home/app:/bin/sh
12:x:13:14::/twelve:
homeless:x:5:6:
broken:x:many:0::/:
short
";
const GROUP: &str = "root:x:0:
app:x:1001:
log:x:7:other,app
audio:x:8:app
12:x:77:
broken:x:::app
";

fn user(uid: u32, gid: u32, groups: &[u32], home: &str) -> User {
    User {
        uid,
        gid,
        groups: groups.to_vec(),
        home: home.into(),
    }
}

#[test]
fn names_and_numbers() {
    for (name, expected) in [
        ("", user(0, 0, &[], "/root")),
        (":", user(0, 0, &[], "/root")),
        ("root", user(0, 0, &[], "/root")),
        ("app", user(1000, 1001, &[7, 8], "/home/app")),
        ("1000", user(1000, 1001, &[7, 8], "/home/app")),
        // With a group there are no others.
        ("app:log", user(1000, 7, &[], "/home/app")),
        ("1000:99", user(1000, 99, &[], "/home/app")),
        (":log", user(0, 7, &[], "/root")),
        // A name of digits precedes the number.
        ("12", user(13, 14, &[], "/twelve")),
        ("0:12", user(0, 77, &[], "/root")),
        ("4711", user(4711, 0, &[], "/")),
        ("homeless", user(5, 6, &[], "/")),
        ("2147483647", user(2_147_483_647, 0, &[], "/")),
    ] {
        assert_eq!(resolve(name, PASSWD, GROUP), Ok(expected), "{name}");
    }
}

#[test]
fn what_cannot_be_resolved() {
    for (name, why) in [
        ("none", "there is no user none"),
        ("2147483648", "there is no user 2147483648"),
        ("-1", "there is no user -1"),
        ("short", "there is no user short"),
        ("app:none", "there is no group none"),
        ("app:app:app", "there is no group app:app"),
        ("broken", "the user broken has no number"),
    ] {
        assert_eq!(resolve(name, PASSWD, GROUP), Err(why.into()), "{name}");
    }
    assert_eq!(resolve("0", "", ""), Ok(user(0, 0, &[], "/")));
}
