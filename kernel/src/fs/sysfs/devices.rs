//! Character devices without a bus: udev finds them by number and by class, and reads these files.

use super::LOOPBACK;
use super::block::ALL;
use super::net;
use crate::fs::seq_file::Node::{self, Directory, Each, File, Link};

/// Members of a directory.
type Members = &'static [(&'static str, Node)];

/// A symbolic link to a fixed place.
macro_rules! link {
    ($($part:expr),*) => {
        Link(|text| text.push(concat!($($part),*).as_bytes()))
    };
}

/// The directories of these devices by class: name, numbers, and the permissions that udev gives
/// the node if they are not 0600.
macro_rules! devices {
    ($($class:literal {
        $($name:literal $major:literal $minor:literal $($mode:literal)?;)*
    })*) => {
        /// `/sys/dev/char`
        pub const BY_NUMBER: Members = &[$($((
            concat!($major, ":", $minor),
            link!("../../devices/virtual/", $class, "/", $name),
        ),)*)*];
        /// `/sys/class`
        pub const CLASSES: Members = &[
            $(($class, Directory(&[$((
                $name,
                link!("../../devices/virtual/", $class, "/", $name),
            ),)*])),)*
            ("block", Each(&[], &ALL)),
            ("net", Each(&[("lo", link!("../../devices/virtual/net/lo"))], &net::CARDS)),
        ];
        /// `/sys/devices/virtual`
        pub const VIRTUAL: Members = &[
            $(($class, Directory(&[$(($name, Directory(&[
                ("dev", File(|text| text.push(concat!($major, ":", $minor, "\n").as_bytes()))),
                ("subsystem", link!("../../../../class/", $class)),
                ("uevent", File(|text| text.push(concat!(
                    "MAJOR=", $major, "\nMINOR=", $minor, "\nDEVNAME=", $name, "\n",
                    $("DEVMODE=", $mode, "\n")?
                ).as_bytes()))),
            ])),)*])),)*
            ("net", Directory(&[("lo", Directory(LOOPBACK))])),
        ];
    };
}

devices! {
    "mem" {
        "null" 1 3 "0666";
        "zero" 1 5 "0666";
        "full" 1 7 "0666";
        "random" 1 8 "0666";
        "urandom" 1 9 "0666";
        "kmsg" 1 11 "0644";
    }
    "tty" {
        "tty" 5 0 "0666";
        "console" 5 1;
        "ptmx" 5 2 "0666";
        "hvc0" 229 0;
    }
}
