#![no_main]

use hosted::fuzz::{netlink, try_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| try_bytes(netlink, bytes));
