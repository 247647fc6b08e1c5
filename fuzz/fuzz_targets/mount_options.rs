#![no_main]

use hosted::fuzz::{mount_options, try_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| try_bytes(mount_options, bytes));
