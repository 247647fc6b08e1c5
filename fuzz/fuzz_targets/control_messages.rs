#![no_main]

use hosted::fuzz::{control_messages, try_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| try_bytes(control_messages, bytes));
